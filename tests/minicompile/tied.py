"""Ties written by hand, as `minicompile.verifying` leaves them in a `Watched`, laid over what is kept of a model."""

from typing import Any

from zoo_models import NEWEST, path_of

from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.watching.watched import read_watched

ELEMENTS = 90  # that each line and each store is said to have been compared on


def call(kernel: str, line: int, **found: Any) -> dict:
    """The ties of one call.

    Args:
        kernel: its name.
        line: of the wrapper, at which it stands.
        found: `lines`, by number within the kernel's text (node, part); `stores`, by buffer (nodes, part); `again`,
            nodes whose lines are not the first with their values; and other fields as they are.
    """
    again = found.pop("again", ())
    lines = [
        {
            "line": number,
            "name": f"tmp{number}",
            "nodes": [node],
            "part": part,
            "elements": ELEMENTS,
            "first": node not in again,
        }
        for number, (node, part) in found.pop("lines", {}).items()
    ]
    stores = [
        {"buffer": buffer, "nodes": nodes, "part": part, "elements": ELEMENTS, "line": None}
        for buffer, (nodes, part) in found.pop("stores", {}).items()
    ]
    computes = [one["nodes"][0] for one in lines if one["first"] and one["part"] in (None, "before_cast")]
    made = {"kernel": kernel, "line": line, "kind": "kernel", "status": "verified", "code": None, "sampled": None}
    made |= {"lines": lines, "stores": stores, "computes": computes, "moves": [], "reads": [], "in_place": []}
    return {**made, "writes": [store["buffer"] for store in stores], **found}


def refused(kernel: str, line: int, code: str) -> dict:
    """The ties of a call that could not be run."""
    return {**call(kernel, line), "status": "refused", "code": code}


def buffers(**nodes: Any) -> dict[str, dict]:
    """Buffers with the nodes whose values are in them at the end.

    `returned` names those that the graph returns; `taken_over`, by buffer, the one whose memory it has.
    """
    returned, taken_over = nodes.pop("returned", []), nodes.pop("taken_over", {})
    inputs = {name: name for name in nodes if name.startswith(("arg", "primals"))}
    return {
        name: {
            "allocation": taken_over.get(name, name),
            "bytes": 0,
            "nodes": held,
            "written_by": [],
            "read_by": [],
            "returned": name in returned,
            "input": inputs.get(name),
        }
        for name, held in nodes.items()
    }


def ties(calls: list[dict], held: dict[str, dict], **where: list[str]) -> dict:
    """The ties of a graph; `where` names, by place (`buffer`, `line`, ...), the nodes that are there."""
    return {
        "format": 1,
        "inputs": 3,
        "refused": None,
        "seconds": 0.1,
        "calls": [{"call": place, **one} for place, one in enumerate(calls)],
        "buffers": held,
        "nodes": {name: {"where": place, "calls": []} for place, names in where.items() for name in names},
    }


def with_ties(name: str, target: str, *of_graphs: dict | None) -> Capture:
    """The capture of what is kept of a model, its graphs in order with these ties."""
    watched = read_watched(path_of(name, target, NEWEST))
    for lowered, found in zip(watched["lowered"], of_graphs, strict=True):
        if found is not None:
            lowered["ties"] = found
    return as_capture(watched)
