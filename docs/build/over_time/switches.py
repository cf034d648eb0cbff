"""Write docs/switches.md: every switch of Inductor's that changes the code of the lab's models, as it was found.

What the page quotes is kept in data/switches.json, by torch's minor version and target.
"""

from pathlib import Path
from typing import Any

from minicompile.knobs import TABLE
from minilab.files import read_json, write_json, write_text
from minilab.pages import templates

DATA = Path(__file__).parents[1] / "data/switches.json"


def remember(results: Path, data: Path = DATA) -> None:
    """Add to what is kept the results in results/switches; a newer one of a minor version and target replaces it."""
    known = read_json(data) if data.exists() else {}
    for path in sorted((results / "switches").glob("*/switches.json")):
        found = read_json(path)
        known[f"{'.'.join(found['torch'].split('.')[:2])}, {found['target']}"] = found
    write_json(data, dict(sorted(known.items())))


def page(data: dict[str, Any]) -> str:
    """Render the page as Markdown."""
    environment = templates.environment("docs.build", trim_blocks=True, lstrip_blocks=True)
    rows: dict[tuple[str, str], dict[str, dict]] = {}
    for run, found in data.items():
        for one in found["changes"]:
            rows.setdefault((one["name"], one["value"]), {})[run] = one
    taught = {name: knob.name for knob in TABLE for name in knob.flipped}
    values = {"runs": data, "rows": sorted(rows.items()), "taught": taught}
    return environment.get_template("switches.md").render(values).strip() + "\n"


def write_page(data: dict[str, Any], docs: Path) -> None:
    write_text(docs / "switches.md", page(data))
