"""What second readings found, kept as data for docs/explained_models.md and the README: by set of models and target."""

import datetime
import json
from collections import Counter
from pathlib import Path

DATA = Path(__file__).parents[3] / "docs" / "build" / "data" / "second_reading.json"
VERDICTS = ("held", "false", "unread")
TOLD = ("as facts", "by notes")
HEAD = """## Read a second time

A second reading judges the same pages by the compiler's texts alone and shares no code with what wrote them.
`python tests/minicompile/second_reading.py --keep SET` makes a row for each target. A sentence without a rule is
unread and counts as nothing. `stored` models were compiled before code was run beside the graph, so that no kernel of
theirs is verified; the others are compiled anew.

- **verified**: kernel calls whose ties to the graph are shown by values, of all calls of generated kernels.
- **plain**: sentences said plainly: held / false / unread; **by notes**: those that say "by Inductor's notes".

| models | target | captured | verified | plain | by notes | torch | read on |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def verified_calls(capture: dict) -> Counter:
    """How many calls of generated kernels a capture has, and how many of them are verified by values."""
    calls = [call for graph in capture["graphs"] for call in graph["calls"] if not call["extern"]]
    return Counter(calls=len(calls), verified=sum(call.get("values", {}).get("status") == "verified" for call in calls))


def row(counts: Counter, captures: list[dict]) -> dict:
    """What is kept of a reading: `counts` by (told, verdict), as `Reading` has them."""
    return {
        "captures": len(captures),
        **sum(map(verified_calls, captures), Counter(calls=0, verified=0)),
        "told": {told: {verdict: counts[told, verdict] for verdict in VERDICTS} for told in TOLD},
        "torch": sorted({one["environment"]["versions"]["torch"] for one in captures}),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def keep(name: str, rows: dict[str, dict], data: Path = DATA) -> None:
    """Put a set's rows, by target, in the place of what was kept of it."""
    known = json.loads(data.read_text()) if data.exists() else {}
    known |= {f"{name}.{target}": one for target, one in rows.items()}
    data.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def table(kept: dict[str, dict]) -> str:
    """The part of a page that shows what is kept."""
    lines = []
    for key, one in sorted(kept.items()):
        name, target = key.rsplit(".", 1)
        told = (" / ".join(str(one["told"][how][verdict]) for verdict in VERDICTS) for how in TOLD)
        calls, versions = f"{one.get('verified', 0)} of {one.get('calls', 0)}", ", ".join(one["torch"])
        cells = (name, target, str(one["captures"]), calls, *told, versions, one["date"])
        lines.append(f"| {' | '.join(cells)} |")
    return HEAD + "\n".join(lines)
