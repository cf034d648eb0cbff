"""Write docs/over_time.md: what each version of torch makes of the same models, from comparisons that have been run.

What the page quotes of them is kept in data/over_time.json, by model and target. Seconds are not: they are of one
machine at one time.
"""

from pathlib import Path
from textwrap import fill
from typing import Any

from minicompile.explain.over_time.compared import COUNTS
from minicompile.explain.over_time.render import Words
from minilab.files import read_json, write_json, write_text
from minilab.pages import templates

DATA = Path(__file__).parents[1] / "data/over_time.json"
KEPT = ("asked", "failed", "torch", "triton", "counts", "main", "libraries")


def kept(found: dict) -> dict:
    """What the page quotes of one comparison, as `minicompile.explain.over_time.over_time` returns it."""
    return {
        "target": {key: found["target"][key] for key in ("kind", "gpu")},
        "train": found["model"]["train"],
        "versions": [{key: one[key] for key in KEPT} for one in found["versions"]],
        "steps": [{key: value for key, value in one.items() if key != "diff"} for one in found["steps"]],
    }


def remember(results: Path, data: Path = DATA) -> None:
    """Add to what is kept the comparisons in results/over_time/NAME-TARGET; a newer one replaces an older."""
    known = read_json(data) if data.exists() else {"models": {}, "settings": []}
    for path in sorted((results / "over_time").glob("*/over_time.json")):
        found = read_json(path)
        known["models"][path.parent.name.rpartition("-")[0] + f", {found['target']['kind']}"] = kept(found)
        known["settings"] = found["settings"] or known["settings"]
    write_json(data, {**known, "models": dict(sorted(known["models"].items()))})


def item(sentences: list[str]) -> str:
    """An item of a list, each sentence with a capital, broken at 120 columns."""
    said = " ".join(one[:1].upper() + one[1:] for one in sentences)
    return fill(said, 120, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def page(data: dict[str, Any]) -> str:
    """Render the page as Markdown."""
    environment = templates.environment("docs.build", trim_blocks=True, lstrip_blocks=True)
    environment.filters["item"] = item
    words = Words()
    changed = {name: one for name, one in data["models"].items() if any(step["differences"] for step in one["steps"])}
    values = {
        "words": words,
        "text": words.text,
        "models": data["models"],
        "changed": changed,
        "alike": [name for name in data["models"] if name not in changed],
        "settings": data["settings"],
        "counts": COUNTS,
    }
    return environment.get_template("over_time.md").render(values).strip() + "\n"


def write_page(data: dict[str, Any], docs: Path) -> None:
    write_text(docs / "over_time.md", page(data))
