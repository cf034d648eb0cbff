"""`over_time`: what a model's compile became from each version of torch to the next, as plain data.

Kernels are matched by the nodes that they compute (`minicompile.explain.capture_diff`), never by name: names change
from version to version where nothing else does. A difference has a reason where both captures hold one: fusions and
refusals that Inductor recorded, nodes of the graph, texts of matched kernels. Where they hold none, none is given.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import NotRequired, TypedDict

from minicompile.explain.annotation.choice import most_interesting
from minicompile.explain.annotation.view import COMPUTED, KernelView
from minicompile.explain.capture_diff import diff_compiles
from minicompile.lowering.captured import Capture, Coded, Graph
from minicompile.lowering.counts import counts, text_of
from minilab.yaml_files import own_yaml

FORMAT = 1
COUNTS = (
    "graphs", "kernels", "generated_launches", "library_launches", "fusions", "bytes", "main_lines", "ptx_lines"
)  # fmt: skip
OF_FUSION = ("kernels", "generated_launches", "fusions", "bytes")
OF_MAIN = ("main_lines", "ptx_lines")
OF_PTX = ("shape", "triton", "triton_too")  # reasons that say nothing of the text
NESTED = "FusedNestedReductions"  # torch's class of a group in which one reduction is within another


class Made(TypedDict):
    """What became of one version: as it was `asked` for, its `capture`, or the sentence of why it `failed`."""

    asked: str
    capture: Capture | None
    failed: str | None
    settings: NotRequired[dict[str, str] | None]  # Inductor's where nobody sets any
    explorer: NotRequired[str | None]  # the capture's page, from the comparison's


def over_time(made: Sequence[Made]) -> dict:
    """Compare the captures of one model, each version's with the next that has one.

    Args:
        made: in the order of the versions; one of them at least has a capture.

    Returns:
        What schemas/over_time.schema.yaml describes: a column for each version, `steps` from one to the next with
        their `differences` and `rewritten` kernels, and which `settings` of Inductor's have another default.
    """
    there = [(one["asked"], one["capture"]) for one in made if one["capture"] is not None]
    known = [(one["asked"], held) for one in made if (held := one.get("settings"))]
    first = there[0][1]
    return {
        "format": FORMAT,
        "model": first["model"],
        "target": first["target"],
        "versions": [_version(one) for one in made],
        "steps": [_step(*a, *b) for a, b in pairwise(there)],
        "settings": [_settings(*a, *b) for a, b in pairwise(known)],
    }


def _version(one: Made) -> dict:
    """A version's column: what it made."""
    told = {"asked": one["asked"], "failed": one["failed"], "explorer": one.get("explorer")}
    if (capture := one["capture"]) is None:
        return {**told, "torch": None, "triton": None, "counts": None, "seconds": None, "main": None, "libraries": {}}
    versions, main = capture["environment"]["versions"], most_interesting(capture)
    called = Counter(call["kernel"] for graph in capture["graphs"] for call in graph["calls"] if call["extern"])
    return {
        **told,
        "torch": versions.get("torch"),
        "triton": versions.get("triton"),
        "counts": counted(capture),
        "seconds": capture["compile"]["seconds"],
        "main": main.kernel["name"] if main else None,
        "libraries": dict(sorted(called.items())),
    }


def counted(capture: Capture) -> dict[str, int | None]:
    """How much a compile made, by the names in `COUNTS`; None where it is not known or there is no such thing.

    `fusions` are the scheduler nodes that share another's kernel; of the main kernel, the one that `annotate` explains,
    there are the lines of its text and of the PTX that Triton made of it.
    """
    made, main = counts(capture), most_interesting(capture)
    panes = {pane["id"]: pane["lines"] for pane in capture["panes"]}
    assembly = main.kernel["assembly"] if main else None
    ptx = assembly["panes"].get("ptx") if assembly else None
    return {
        "graphs": len(capture["graphs"]),
        **{name: made[name] for name in ("kernels", "generated_launches", "library_launches")},
        "fusions": sum(len(group["members"]) - 1 for graph in capture["graphs"] for group in graph["groups"]),
        "bytes": made["bytes"],
        "main_lines": main.kernel["last"] - main.kernel["first"] + 1 if main else None,
        "ptx_lines": len(panes[ptx]) if ptx else None,
    }


def _step(asked_a: str, a: Capture, asked_b: str, b: Capture) -> dict:
    """What differs between two versions."""
    diff, sides = diff_compiles(a, b), (counted(a), counted(b))
    whys = _fusions(a, b, diff) + _nodes(diff)
    of_main, breaks = _of_main(a, b, diff, whys), _breaks(a, b)
    differences = [
        {"count": name, "before": before, "after": after, "why": _why(name, before, after, whys, of_main, breaks)}
        for name in COUNTS
        if (before := sides[0][name]) != (after := sides[1][name])
    ]
    return {
        "before": asked_a,
        "after": asked_b,
        "same": diff["same"],
        "differences": differences,
        "rewritten": [
            {**one, "graph": graph["id"], "why": _texts(*(_kernel(*side) for side in _named(a, b, graph["id"], one)))}
            for graph in diff["graphs"]
            for one in graph["rewritten"]
        ],
    }


def _why(
    name: str, before: int | None, after: int | None, whys: list[Coded], of_main: list[Coded], breaks: list[Coded]
) -> list[Coded]:
    """The reasons that say why this count went this way; those of another way are of another count's."""
    if name == "graphs":
        return breaks
    if name in OF_MAIN:
        return [why for why in of_main if name == "ptx_lines" or why["code"] not in OF_PTX]
    if before is None or after is None:
        return []
    way = "more" if after > before else "fewer"
    # joined, there are fewer kernels and more fusions
    joined = {"more": "fewer", "fewer": "more"}[way] if name == "fusions" else way
    return [
        why
        for why in whys
        if (why["code"] == "nodes" and why[way]) or (name in OF_FUSION and why.get("calls") == joined)
    ]


def _fusions(a: Capture, b: Capture, diff: dict) -> list[Coded]:
    """Where operations share other kernels: how many calls they were and are, and Inductor's own reason."""
    found: list[Coded] = []
    for graph in diff["graphs"]:
        graph_a, graph_b = _graph(a, graph["id"]), _graph(b, graph["id"])
        for before, after, reasons in _gathered(graph["fused"]):
            if len(before) == len(after):
                continue
            calls = "fewer" if len(after) < len(before) else "more"
            joined_in, joined = (graph_b, after) if calls == "fewer" else (graph_a, before)
            nested = any(
                joined_in["groups"][number]["kind"] == NESTED
                for call in joined_in["calls"]
                if call["id"] in joined
                for number in call["groups"]
            )
            named = [sorted(calls.values()) for calls in (before, after)]
            way = "forth" if calls == "fewer" else "back"
            code = "nested" if nested else "joined"
            found.append({"code": code, "way": way, "calls": calls, "a": named[0], "b": named[1], "reasons": reasons})
    return found


def _gathered(fused: list[dict]) -> list[tuple[dict[str, str], dict[str, str], list[Coded]]]:
    """Calls of both sides, by id, that hold parts of one another, with the refusals that are recorded between them."""
    found: list[tuple[dict[str, str], dict[str, str], list[Coded]]] = []
    for one in fused:
        a, b = ({call["call"]: call["kernel"] for call in one[side]} for side in ("a", "b"))
        reasons = list(one["reasons"])
        for other in [each for each in found if each[0].keys() & a.keys() or each[1].keys() & b.keys()]:
            found.remove(other)
            a, b = {**other[0], **a}, {**other[1], **b}
            reasons = other[2] + [reason for reason in reasons if reason not in other[2]]
        found.append((a, b, reasons))
    return found


def _nodes(diff: dict) -> list[Coded]:
    """Which operations of the graph one side has alone, of those that cost something: views are none."""
    sides = (
        sorted({one["target"] for graph in diff["graphs"] for one in graph[side] if _costs(one["fate"])})
        for side in ("appeared", "vanished")
    )
    appeared, vanished = sides
    return [{"code": "nodes", "more": appeared, "fewer": vanished}] if appeared or vanished else []


def _costs(fate: str | None) -> bool:
    return fate in COMPUTED or fate == "extern call"


def _breaks(a: Capture, b: Capture) -> list[Coded]:
    """The graph breaks that one side has alone, in Dynamo's words."""
    before, after = (Counter(one["reason"] for one in capture["graph_breaks"]) for capture in (a, b))
    return [
        {"code": "break", "way": way, "reason": reason}
        for way, alone in (("forth", after - before), ("back", before - after))
        for reason in sorted(alone.elements())
    ]


def _of_main(a: Capture, b: Capture, diff: dict, whys: list[Coded]) -> list[Coded]:
    """Why the main kernel's text, or what Triton made of it, is longer or shorter."""
    views = most_interesting(a), most_interesting(b)
    if not (views[0] and views[1]):
        return []
    main_a, main_b = views[0], views[1]
    texts = _text(a, main_a), _text(b, main_b)
    names = main_a.kernel["name"], main_b.kernel["name"]
    pairs = {(one["a"], one["b"]) for graph in diff["graphs"] for one in graph["rewritten"]}
    compiled = [_compiled(view) for view in (main_a, main_b)]
    shaped: list[Coded] = [{"code": "shape", "a": compiled[0], "b": compiled[1]}] if compiled[0] != compiled[1] else []
    tritons = [capture["environment"]["versions"].get("triton") for capture in (a, b)]
    if tritons[0] != tritons[1] and all(view.kernel["assembly"] for view in (main_a, main_b)):
        code = "triton" if texts[0] == texts[1] else "triton_too"
        shaped.append({"code": code, "a": tritons[0], "b": tritons[1]})
    if texts[0] == texts[1] or names in pairs:
        return _texts(*texts) + shaped
    fused = [why for why in whys if names[0] in why.get("a", ()) and names[1] in why.get("b", ())]
    return (fused or [{"code": "other_kernel", "a": names[0], "b": names[1]}]) + shaped


def _compiled(view: KernelView) -> str | None:
    """The blocks, warps and stages with which Triton compiled a kernel, the first of those that it would time."""
    assembly = view.kernel["assembly"]
    return assembly and ", ".join(f"{name}={value}" for name, value in sorted(assembly["configuration"].items()))


def _text(capture: Capture, view: KernelView) -> str:
    return text_of(capture, view.graph, view.kernel)


def _named(a: Capture, b: Capture, graph: str, one: dict) -> list[tuple[Capture, str, str]]:
    return [(a, graph, one["a"]), (b, graph, one["b"])]


def _kernel(capture: Capture, graph: str, name: str) -> str:
    held = _graph(capture, graph)
    return text_of(capture, held, next(kernel for kernel in held["kernels"] if kernel["name"] == name))


def _graph(capture: Capture, name: str) -> Graph:
    return next(graph for graph in capture["graphs"] if graph["id"] == name)


def _texts(a: str, b: str) -> list[Coded]:
    """What the texts of two kernels that compute the same tell of why they differ."""
    found: list[Coded] = []
    for one in _patterns():
        has = [[re.search(one[side], text, re.S) is not None for side in ("old", "new")] for text in (a, b)]
        if sorted(has) == [[False, True], [True, False]]:
            found.append({"code": one["code"], "way": "forth" if has[0][0] else "back"})
    return found


@cache
def _patterns() -> list[dict[str, str]]:
    return own_yaml(resources.files("minicompile.explain").joinpath("data/version_reasons.yaml").read_bytes())


def _settings(asked_a: str, a: dict[str, str], asked_b: str, b: dict[str, str]) -> dict:
    """Which settings have another default, are new, or are gone."""
    both = [name for name in a if name in b and a[name] != b[name]]
    return {
        "before": asked_a,
        "after": asked_b,
        "changed": [{"name": name, "before": a[name], "after": b[name]} for name in both],
        "new": [{"name": name, "value": b[name]} for name in b if name not in a],
        "gone": [{"name": name, "value": a[name]} for name in a if name not in b],
    }
