"""What the page is given: captures without what it does not show, each different line of text once.

Inductor's IR before and after fusion is nearly the same text, and kernels resemble each other; with each line stored
once and the whole compressed, MiniGPT's capture takes a tenth of its size.
"""

from collections.abc import Mapping, Set
from typing import Any

from minicompile.explain.evidence import of_fate
from minicompile.explain.explorer.highlight import highlight, highlight_line
from minicompile.explain.explorer.intrinsics import used
from minicompile.explain.explorer.links import body_links
from minicompile.explain.explorer.questions import questions
from minicompile.explain.explorer.tour import stop, tour
from minicompile.explain.standalone import script_parts
from minicompile.explain.wording import Wording
from minicompile.lowering.by_values import is_verified
from minicompile.lowering.captured import Capture, Graph, Kernel, Node, Pane, is_one_result
from minicompile.lowering.inner_graphs import called, times, told
from minilab import LabError

COPIED = (
    "model",
    "target",
    "environment",
    "compile",
    "compiles",
    "missing_hooks",
    "graph_breaks",
    "recompiles",
    "choices",
    "candidate_sources",
)
NODE = ("name", "target", "size", "dtype", "bytes", "lowering", "line", "fate", "buffer", "layer")
SCHEDULER_NODE = (
    "name",
    "kind",
    "computes",
    "origins",
    "buffers",
    "reads",
    "writes",
    "reduction_type",
    "extern",
    "user_triton",
    "loop_sizes",
    "lines",
)
OPERATION = ("operation", "producer", "line")
DECISION = ("first", "second", "shared_buffers", "taken", "reasons")
TARGET = ("kind", "device", "simulated")
BUFFER = ("name", "size", "bytes", "removed", "input")
# texts in which a string or a comment may go over several lines; the others are long, and their lines repeat
TOGETHER = ("source", "bytecode", "dynamo", "joint", "aten", "groups", "code")
GRAPH = ("id", "index", "direction", "inference", "panes", "groups", "decisions", "coverage", "layers")


def only(record: Mapping[str, Any], keys: tuple[str, ...]) -> dict:
    return {key: record[key] for key in keys if key in record}


def classes_of(pane: Pane, graph: Graph | None) -> list[str]:
    """Token classes of a pane's lines. A kernel stands in the wrapper as a string; here it is read as what it is."""
    if pane["kind"] not in TOGETHER:
        return [highlight_line(line, pane["language"]) for line in pane["lines"]]
    classes = highlight(pane["lines"], pane["language"])
    for kernel in graph["kernels"] if graph and pane["kind"] == "code" else ():
        body = slice(kernel["first"] - 1, kernel["last"])
        classes[body] = highlight(pane["lines"][body], kernel["language"])
    return classes


def packed_kernel(capture: Capture, graph: Graph, kernel: Kernel, language: str) -> dict:
    """A kernel with its stand-alone script, in parts, or null where none can be written."""
    try:
        return {**kernel, "script": script_parts(capture, graph, kernel, language)}
    except LabError:
        return {**kernel, "script": None}


def _part(node: Node, nodes: Mapping[str, Node], allocated: Set[str]) -> dict:
    """Of what takes one of several results: `part_of`, whose they are, and the `buffer` that it lies in, if any."""
    if not is_one_result(node, nodes):
        return {}
    return {"part_of": node["inputs"][0], "buffer": node["buffer"] if node["buffer"] in allocated else None}


def _line_values(graph: Graph) -> dict[int, list[str]]:
    """By line of the code pane, the ATen nodes whose values it was found to have."""
    verified = (call["values"] for call in graph["calls"] if is_verified(call))
    return {one["line"]: one["nodes"] for values in verified for one in values["lines"] if not one["part"]}


def packed_graph(capture: Capture, graph: Graph, wording: Wording, language: str) -> dict:
    """A graph without what the page does not show, its fusions' reasons worded."""
    named = {node["name"]: node for node in graph["nodes"]}
    allocated = {buffer["name"] for buffer in graph["buffers"] if not buffer["removed"]}
    nodes = [
        {**only(node, SCHEDULER_NODE), "operations": [only(operation, OPERATION) for operation in node["operations"]]}
        for node in graph["scheduler_nodes"]
    ]
    in_templates = {name for node in graph["scheduler_nodes"] if node["template"] for name in node["aten_nodes"]}
    return {
        **only(graph, GRAPH),
        "calls": [
            {
                **{key: value for key, value in call.items() if key != "values"},
                "times": times(call),
                "runs": wording.runs(call["runs"]) if "runs" in call else "",
                "verified": is_verified(call),
            }
            for call in graph["calls"]
        ],
        "line_values": _line_values(graph),
        "called": called(graph),
        "inner": [*(wording.inner_graph(one) for one in told(graph)), *wording.verified([graph])],
        "nodes": [
            {
                **only(node, NODE),
                "in_template": node["name"] in in_templates,
                "noted": of_fate(node) == "notes",
                **_part(node, named, allocated),
            }
            for node in graph["nodes"]
            if node["line"]
        ],
        "buffers": [only(buffer, BUFFER) for buffer in graph["buffers"]],
        "scheduler_nodes": nodes,
        "kernels": [packed_kernel(capture, graph, kernel, language) for kernel in graph["kernels"]],
        "decisions": [
            {**only(decision, DECISION), "sentence": wording.fusion_of(decision)} for decision in graph["decisions"]
        ],
    }


def packed_capture(capture: Capture, texts: dict[tuple[str, str], int], profile: dict | None, language: str) -> dict:
    """A capture without what the page does not show; `texts`, lines with their classes, get those that are new."""
    wording = Wording(language)
    graphs = {graph["id"]: graph for graph in capture["graphs"]}

    def placed(pane: Pane) -> list[int]:
        lines = zip(pane["lines"], classes_of(pane, graphs.get(pane["graph"] or "")), strict=True)
        return [texts.setdefault(line, len(texts)) for line in lines]

    return {
        **only(capture, COPIED),
        "target": {**only(capture["target"], TARGET), "label": wording.label(capture)},
        "warnings": [wording.warning(one) for one in capture.get("warnings", [])],
        "guards": len(capture["guards"]),
        "graphs": [packed_graph(capture, graph, wording, language) for graph in capture["graphs"]],
        "panes": [{**pane, "title": wording.title(pane["title"]), "lines": placed(pane)} for pane in capture["panes"]],
        "links": [
            {**link, "pairs": [line for pair in link["pairs"] for line in pair]}
            for link in [*capture["links"], *body_links(capture)]
        ],
        "profile": profile,
    }


def payload(captures: list[Capture], profiles: list[dict | None], language: str = "en") -> dict:
    """The data of a page for one capture or two of the same model, ready to be written as JSON.

    Args:
        captures: as in schemas/capture.schema.yaml.
        profiles: for each, its profile or None.
        language: of what is told of them.
    """
    texts: dict[tuple[str, str], int] = {}
    packed = [
        packed_capture(capture, texts, profile, language) for capture, profile in zip(captures, profiles, strict=True)
    ]
    return {
        "captures": packed,
        "tour": tour(captures, language),
        "questions": [
            {"name": one.name, **stop(0, (one.pane, one.line), one.question, one.answer)}
            for one in questions(captures[0], language)
        ],
        "intrinsics": used(captures, language),
        "lines": [line for line, _ in texts],
        "classes": [classes for _, classes in texts],
    }
