"""The page on whose linear and cross-entropy is right: from the records of stage 27, and the last run on a CPU here.

A CPU's results are no record, so that what the page quotes of one run is kept in data/loss_correctness.json.
"""

from pathlib import Path

from minikernel.report.loss.stage_27 import filters, verdict_view, words
from minilab.files import read_json, write_json
from minilab.pages import templates
from minilab.records.artefact import RECORDED, artefact

DATA = Path(__file__).parent / "data/loss_correctness.json"
KEPT = ("cases", "versions")
NAME = "loss_correctness"


def remember(results: Path, data: Path = DATA) -> None:
    """Keep what the page quotes of a CPU on which this was judged here; nothing changes where it was not."""
    for path in sorted((results / "27").glob(f"cpu-*/{NAME}.json")):
        made = read_json(path)
        hardware = {"gpu": None, "cpu": made["provenance"]["hardware"]["cpu"]}
        origin = {"date": made["provenance"]["date"], "hardware": hardware}
        write_json(data, {"provenance": origin, **{name: made[name] for name in KEPT}})


def verdicts(recorded: Path = Path(RECORDED), data: Path = DATA) -> list[dict]:
    """Each device's verdicts: those of the records, and what is kept of a CPU."""
    entry = artefact(NAME)
    paths = (Path(entry.record_pattern(recorded).format(device=folder.name)) for folder in sorted(recorded.glob("*/")))
    return [*(read_json(path) for path in paths if path.exists()), *([read_json(data)] if data.exists() else [])]


def page(made: list[dict]) -> str:
    """Render the page as Markdown."""
    environment = templates.environment("docs.build", trim_blocks=True, lstrip_blocks=True)
    environment.filters |= filters(words("en"))
    return environment.get_template("who_is_right.md").render(devices=[verdict_view(one) for one in made])
