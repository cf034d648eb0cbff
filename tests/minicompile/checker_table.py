"""Explains every model of `zoo/`, holds each sentence against the generated code, and writes docs/explained_models.md.

`python tests/minicompile/checker_table.py` proves what is said of the compiles that are kept (`watched_models.py`
watches them anew) and writes the page; only the kernels that are run are compiled. A row that is not made anew stays.
"""

import argparse
import datetime
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from second import kept as second
from zoo_models import KEPT, NAMES, NEWEST, TARGETS, Captured, Verdict, of_kept
from zoo_proofs import judged
from zoo_runs import Ran, ran

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "build" / "data" / "explained_models.json"
PAGE = ROOT / "docs" / "explained_models.md"
TITLES = {"cpu": "C++ for this CPU", "simulated": "Triton for a simulated H200", "cuda": "Triton on a GPU"}
HEAD = """# Explained models

Each model of `tests/minicompile/zoo` is captured, and what is said of it is held against the generated code: bytes
against the addresses that the kernels touch when they run, fates against the memory that they leave, a kernel's name
against torch's own function, reasons against the reads and writes that Inductor prints. Pages are read a second time.
`python tests/minicompile/checker_table.py` writes this page, and the same proofs are tests.
"""
COLUMNS = """
- **nodes tied**: operations of the ATen graph that are linked to a line of code, of all that compute.
- **lines linked**: lines of the kernels that are linked to an operation; the others are loops and signatures.
- **calls**: kernel calls whose bytes are exactly those that the kernel touches / are a bound / are wrong. A dash: the
  kernels cannot run here, because a size is a symbol, a branch depends on a value, or a kernel is the user's own.
- **held**: claims that were held against the code; **false**: those that the code refutes, and plain sentences that the
  second reading refutes.
"""


def row(one: Captured, runs: Ran) -> dict:
    """What the table says of a capture."""
    graphs, verdicts = one.capture["graphs"], judged(one, runs)
    total = sum(verdicts.values(), Verdict())

    def counted(what: str) -> list[int]:
        return [sum(graph["coverage"][what][side] for graph in graphs) for side in (0, 1)]

    calls = verdicts["bytes"]
    return {
        "captured": True,
        "torch": one.capture["environment"]["versions"]["torch"],
        "device": one.capture["target"]["gpu"] or one.capture["target"]["device"],
        "nodes": counted("compute_nodes"),
        "lines": counted("kernel_lines"),
        "calls": {**calls.held, "wrong": len(calls.false)} if runs else None,
        "held": sum(total.held.values()),
        "false": total.false,
        "warnings": len(one.capture["warnings"]),
    }


def rows_of(captures: list[Captured]) -> dict[str, dict]:
    """The table's rows by `NAME.TARGET`."""
    with tempfile.TemporaryDirectory() as folder:
        runs = ran(captures, Path(folder))
    return {f"{one.name}.{one.target}": row(one, its) for one, its in zip(captures, runs, strict=True)}


def page(data: dict, again: dict | None = None) -> str:
    """The page of a table, and of what second readings found."""
    parts = [HEAD, _summary(data["rows"]), COLUMNS]
    if again:
        parts.append(second.table(again))
    for target, title in TITLES.items():
        rows = {key.split(".")[0]: one for key, one in sorted(data["rows"].items()) if key.endswith(f".{target}")}
        if not rows:
            continue
        versions = sorted({f"torch {one['torch']}, {one['device']}" for one in rows.values() if one["captured"]})
        parts.append(f"\n## {title}\n\n{'; '.join(versions)}; written {data['dates'][target]}.\n")
        parts.append(
            "| model | nodes tied | lines linked | calls | held | false |\n| --- | --- | --- | --- | --- | --- |"
        )
        parts += [f"| {name} | {_cells(one)} |" for name, one in rows.items()]
    return "\n".join(parts) + "\n"


def _cells(one: dict) -> str:
    if not one["captured"]:
        return f"not captured: {one['error'].replace('|', '/')} | | | | "
    calls, shown = one["calls"], "–"
    if calls is not None:
        exact = calls.get("touched", 0) - calls["wrong"]
        shown = f"{exact} / {calls.get('at_most', 0)} / {calls['wrong']}"
    nodes, lines = (f"{tied} / {every}" for tied, every in (one["nodes"], one["lines"]))
    return f"{nodes} | {lines} | {shown} | {one['held']} | {len(one['false']) or 'none'}"


def _summary(rows: dict[str, dict]) -> str:
    lines = ["| target | models | captured | calls: exact / bound / wrong | held | false |", "| --- |" + " --- |" * 5]
    for target, title in TITLES.items():
        some = [one for key, one in rows.items() if key.endswith(f".{target}")]
        if not some:
            continue
        made, calls = [one for one in some if one["captured"]], Counter()
        for one in made:
            calls.update(one["calls"] or {})
        exact = f"{calls['touched'] - calls['wrong']} / {calls['at_most']} / {calls['wrong']}"
        held, false = sum(one["held"] for one in made), sum(len(one["false"]) for one in made)
        lines.append(f"| {title} | {len(some)} | {len(made)} | {exact} | {held} | {false or 'none'} |")
    return "\n".join(lines)


def _minor(folder: Path) -> list[int]:
    return [*map(int, folder.name.split("."))]


def kept(targets: Sequence[str], models: Sequence[str]) -> list[Captured]:
    """The captures of what is kept of models, each with the newest torch of which all are kept, or an older one."""
    versions = sorted(KEPT.iterdir(), key=_minor)
    paths = {
        (path.name.partition(".")[0], path.parent.name): path  # a newer version's in the place of an older one's
        for version in versions
        if _minor(version) <= _minor(KEPT / NEWEST)
        for path in sorted(version.glob("*/*.json.xz"))
    }
    return [of_kept(*key, path) for key, path in sorted(paths.items()) if key[0] in models and key[1] in targets]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", choices=(*TARGETS, "cuda"), help="again for several")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all of the zoo by default")
    parser.add_argument("--page", action="store_true", help="write the page of what is kept, and prove nothing")
    asked = parser.parse_args()
    if unknown := set(asked.models) - set(NAMES):
        parser.error(f"the zoo has no {', '.join(sorted(unknown))}; its models are the files of tests/minicompile/zoo")
    if asked.page:
        PAGE.write_text(page(json.loads(DATA.read_text()), read_again()))
        return 0
    rows = rows_of(kept(asked.target or (*TARGETS, "cuda"), asked.models or NAMES))
    false = [f"{key}: {said}" for key, one in rows.items() for said in one.get("false", ())]
    print("\n".join(false) or f"{sum(one.get('held', 0) for one in rows.values())} sentences held, none of them false")
    write(rows)
    return bool(false)


def write(rows: dict[str, dict]) -> None:
    """Put rows into the table, in the place of what it said of these models, and write the page."""
    data = json.loads(DATA.read_text()) if DATA.exists() else {"rows": {}, "dates": {}}
    targets = {key.split(".")[1] for key in rows}
    kept = {key: one for key, one in data["rows"].items() if key.split(".")[0] in NAMES}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    data = {"rows": dict(sorted({**kept, **rows}.items())), "dates": {**data["dates"], **dict.fromkeys(targets, today)}}
    DATA.write_text(json.dumps(data, indent=1) + "\n")
    PAGE.write_text(page(data, read_again()))


def read_again() -> dict:
    """What is kept of second readings."""
    return json.loads(second.DATA.read_text()) if second.DATA.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
