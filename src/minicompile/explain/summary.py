"""The page that tells what was compiled: compiles, recompiles and their guards, graph breaks and their lines."""

import re
from collections import defaultdict
from collections.abc import Sequence
from os.path import relpath
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from minicompile.explain.wording import AT_THE_HEAD, Wording
from minicompile.lowering.captured import Capture
from minicompile.lowering.inner_graphs import called, told
from minicompile.lowering.record import shown_path
from minilab.files import write_text
from minilab.pages.translations import Translations
from minilab.pages.web_page import asset, base_style

PACKAGE = "minicompile.explain"
RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")


def render_summary(
    shown: list[dict],
    path: str | Path,
    language: str = "en",
    uncompiled: Sequence[dict] = (),
    unseen: Sequence[dict] = (),
) -> Path:
    """Write the page.

    Args:
        shown: for each model its `capture`, `files`, the paths of `explorer`, `annotation` and `capture`, and
            `process`, which number it has, where it was compiled in another process.
        path: of the HTML file.
        language: of the page's own words; Dynamo's are quoted as they are.
        uncompiled: what torch.compile was asked to compile and nothing was compiled of: `name`, `file`, `line`, and
            how many `calls` reached it as compiled.
        unseen: what is not shown, each with its `code` (of `unseen` in the words) and what its sentence names.
    """
    template, values = _template(language)
    # a loop over layers asks for many on one line
    alike: dict[tuple, list[dict]] = defaultdict(list)
    for one in uncompiled:
        alike[one["name"], shown_path(one["file"] or ""), one["line"], one["calls"] > 0].append(one)
    values["uncompiled"] = [
        {
            "name": name,
            "at": f"{file}:{line}",
            "count": len(some),
            "calls": sum(one["calls"] for one in some),
            "how": "called" if called_at_all else "never",
        }
        for (name, file, line, called_at_all), some in alike.items()
    ]
    models = [{**summary(one["capture"], language), "process": one.get("process")} for one in shown]
    folder = Path(path).parent
    files = [{what: relpath(file, folder) for what, file in one["files"].items()} for one in shown]
    write_text(path, template.render(**values, models=models, files=files, unseen=unseen))
    return Path(path)


def summary_html(capture: Capture, language: str = "en") -> Markup:
    """The page's part on one capture, without links to files."""
    template, values = _template(language)
    page: Any = template.make_module({**values, "models": [], "files": [], "unseen": []})
    return page.model(summary(capture, language), {})


def _template(language: str) -> tuple[Template, dict]:
    """The page's template, and what it is given whatever it shows."""
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(asset(PACKAGE, "summary.html"))
    text = Translations(PACKAGE, "summary", language)
    return template, {"uncompiled": [], "text": text, "language": language, "base": base_style()}


def summary(capture: Capture, language: str = "en") -> dict:
    """What the page says of one capture, in figures and Dynamo's words."""
    wording = Wording(language)
    of_graph: dict[int, list[dict]] = {}
    for graph in capture["graphs"]:
        part = {"id": graph["id"], **called(graph), "inner": [wording.inner_graph(one) for one in told(graph)]}
        of_graph.setdefault(graph["index"], []).append(part)
    return {
        "name": capture["model"]["name"],
        "process": None,
        "class": capture["model"]["class"],
        "label": wording.label(capture),
        "seconds": capture["compile"]["seconds"],
        "kernels": sum(part["kernels"] for parts in of_graph.values() for part in parts),
        "graphs": len(capture["graphs"]),
        "compiles": [
            {
                **one,
                "function": _function(one["function"]),
                "parts": [part for index in one["graphs"] for part in of_graph.get(index, [])],
            }
            for one in capture.get("compiles", [])
        ],
        "breaks": [place_told(capture, one) for one in capture["graph_breaks"]],
        "notes": wording.at_the_head(capture),
        "verified": wording.verified(capture["graphs"]),
        "warnings": [wording.warning(one) for one in capture.get("warnings", []) if one["code"] not in AT_THE_HEAD],
    }


def _function(name: str | None) -> dict:
    """A frame's function; of what is left of one after a graph break, that function and the line."""
    match = RESUMED.search(name or "")
    return {"name": match[1], "rest_from": int(match[2])} if match else {"name": name or "", "rest_from": None}


def place_told(capture: Capture, one: dict) -> dict:
    """A place at which Dynamo stopped: its line, its reasons, and the ways to it, each with the function compiled."""
    ways = one.get("ways", [one])  # a capture of before has one way alone
    reasons: dict[tuple, dict] = {}
    for way in ways:
        reasons.setdefault((way["reason"], way.get("explanation")), way)
    functions = {made["id"]: _function(made["function"]) for made in capture.get("compiles", [])}
    return {
        "at": stopped_at(capture, one),
        "count": one.get("count", 1),
        "reasons": list(reasons.values()),
        "ways": [{**way, "function": functions.get(way.get("compile", ""))} for way in ways],
    }


def stopped_at(capture: Capture, one: dict) -> dict | None:
    """The innermost line of the user's at which Dynamo stopped, with its text."""
    frames = [frame for frame in one.get("stack", []) if frame["pane"]] or one.get("stack", [])
    if not frames:
        return None
    frame = frames[-1]
    lines = next((pane["lines"] for pane in capture["panes"] if pane["id"] == frame["pane"]), [])
    return {**frame, "text": lines[frame["line"] - 1].strip() if frame["line"] <= len(lines) else None}
