"""Writes the report of stage 25 and its manifest: every figure is an artefact's, and the figures decide every sentence.

This module works out what there is to say of the captures; `templates/report_25.md` says it, beside what
`profile_report` has to say of the times. `overview` works out what stands first.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import PurePosixPath

from minicompile.explain.annotation.choice import most_interesting
from minicompile.explain.annotation.headline import named_whole
from minicompile.explain.evidence import is_all_verified
from minicompile.explain.wording import Wording
from minicompile.lowering.by_values import computed
from minicompile.lowering.captured import Capture, Graph, Node, is_one_result
from minicompile.lowering.inner_graphs import called
from minicompile.report import words
from minicompile.report.overview import Measured, five_sentences, what_matters
from minicompile.report.profile_report import interpretation
from minilab.pages.templates import render

SAME = ("source_same", "ttir_same", "ptx_same", "sass_same")
NOT_WRITTEN = ("inlined", "fused away")  # fates of results that never reach memory


def capture_view(capture: Capture, folder: str, language: str = "en") -> dict:
    """Work out what there is to say about one capture, a graph at a time.

    Args:
        capture: a `capture.json`.
        folder: its folder, relative to the report.
        language: of its label.
    """
    return {
        "model": capture["model"]["name"],
        "train": capture["model"]["train"],
        "device": capture["target"]["device"],
        "label": Wording(language).label(capture),
        "simulated": capture["target"]["simulated"],
        "seconds": capture["compile"]["seconds"],
        "graph_breaks": sum(each["count"] for each in capture["graph_breaks"]),
        "recompiles": len(capture["recompiles"]),
        "folder": folder,
        "kernel": f"{folder}/kernel.{'cpp' if capture['target']['kind'] == 'cpu' else 'py'}",
        "graphs": [graph_view(graph) for graph in capture["graphs"]],
    }


def graph_view(graph: Graph) -> dict:
    """Count what fusion made of one graph, and the bytes that never reached memory."""
    fates = Counter(node["fate"] for node in graph["nodes"] if node["fate"])
    nodes = {node["name"]: node for node in graph["nodes"]}
    stored = {buffer["name"] for buffer in graph["buffers"] if not buffer["removed"]}
    unwritten = [node for node in graph["nodes"] if _is_unwritten(node, nodes, stored)]
    calls = called(graph)
    return {
        "id": graph["id"],
        "direction": graph["direction"],
        "operations": sum(fates.values()) - fates["view"],
        "fates": dict(fates),
        "kernels": len(graph["kernels"]),
        "calls": calls["kernels"],
        "extern_calls": calls["libraries"],
        "fusions": sum(decision["taken"] for decision in graph["decisions"]),
        "refused": sum(not decision["taken"] for decision in graph["decisions"]),
        "unwritten_bytes": sum(node["bytes"] or 0 for node in unwritten),
        "removed_buffers": sum(buffer["removed"] for buffer in graph["buffers"]),
        "coverage": {what: pair for what, pair in graph["coverage"].items() if what != "missing"},
    }


def _is_unwritten(node: Node, nodes: Mapping[str, Node], stored: Set[str]) -> bool:
    """Whether no kernel stores a result; one of several results shares the operation's fate, unless it is stored."""
    if not is_one_result(node, nodes):
        return node["fate"] in NOT_WRITTEN
    return nodes[node["inputs"][0]]["fate"] in NOT_WRITTEN and node["buffer"] not in stored


def refusals(captures: Sequence[Capture], most: int = 5, language: str = "en") -> list[tuple[str, int]]:
    """List the commonest reasons for which fusions were refused, in plain words, with how often each was given."""
    wording = Wording(language)
    sentences = Counter(
        wording.fusion(decision["reason"], named=False)
        for capture in captures
        for graph in capture["graphs"]
        for decision in graph["decisions"]
        if not decision["taken"]
    )
    return sentences.most_common(most)


def mapping(views: list[dict], captures: Sequence[Capture], language: str = "en") -> dict | None:
    """Map each operation of the smallest captured forward graph to what computes it; None where nothing was captured.

    Returns:
        `model`, `device`, and `rows`: the ATen `operation`, its `fate` in words, and the `kernels` or library functions
        that compute it; `noted`, whether some of it is told by Inductor's notes. Code that ran comes before code for a
        simulated GPU.
    """
    if not captures:
        return None
    size = [(view["simulated"], sum(graph["operations"] for graph in view["graphs"])) for view in views]
    smallest = min(range(len(views)), key=size.__getitem__)
    graph, wording = captures[smallest]["graphs"][0], Wording(language)
    noted = not is_all_verified({**captures[smallest], "graphs": [graph]})
    rows = [
        {
            "operation": node["target"],
            "fate": wording.fate(node["fate"]),
            "kernels": [call["kernel"] for call in graph["calls"] if node["name"] in computed(call)],
        }
        for node in graph["nodes"]
        if node["fate"] and node["fate"] != "view"
    ]
    return {"model": views[smallest]["model"], "device": views[smallest]["device"], "rows": rows, "noted": noted}


def pattern(capture: Capture) -> str | None:
    """Name what the annotated kernel of a capture computes, `softmax` for instance; None where it is nothing known."""
    view = most_interesting(capture)
    whole = view and named_whole(view)
    return whole.name if whole else None


def tied(views: list[dict]) -> dict[str, tuple[int, int]]:
    """Sum over all graphs how many computing `nodes`, and `lines` of kernels, are linked, and how many there are."""

    def over_all(what: str) -> tuple[int, int]:
        pairs = [graph["coverage"][what] for view in views for graph in view["graphs"]]
        return sum(done for done, _ in pairs), sum(whole for _, whole in pairs)

    return {"nodes": over_all("compute_nodes"), "lines": over_all("kernel_lines")}


def matches(profiles: list[dict]) -> list[dict]:
    """List how far compiled lies from eager, a row for each profile, shape and mode."""
    return [
        {
            "model": profile["model"],
            "device": profile["provenance"]["device"],
            "mode": timing["mode"],
            "shape": timing["shape"],
            "max_abs_difference": timing["max_difference"],
        }
        for profile in profiles
        for timing in profile["timings"]
    ]


def comparison_view(compared: dict, language: str = "en") -> dict:
    """Work out what there is to say of a `simulated_vs_real.json`: in what, and in how many kernels, both agree."""
    wording = Wording(language)
    graphs = [
        {
            **graph,
            "why": [wording.difference(why) for why in graph["why"]],
            "count": len(graph["kernels"]) + len(graph["only"]["real"]),
            **{what: sum(kernel[what] is True for kernel in graph["kernels"]) for what in SAME},
            "same_configuration": sum(kernel["configuration"]["same"] for kernel in graph["kernels"]),
        }
        for graph in compared["graphs"]
    ]
    return {
        **compared,
        "graphs": graphs,
        "date": compared["provenance"]["date"][:10],
        "stale": words.is_stale(compared),
    }


def report_25(
    captures: Sequence[tuple[str, Capture]],
    profiles: list[tuple[str, dict]],
    distributed: list[dict],
    safety: str,
    compared: Sequence[dict] = (),
    language: str = "en",
    health: Sequence[dict] = (),
) -> str:
    """Write `results/25/REPORT.md`, in Markdown.

    Args:
        captures: (folder relative to the report, `capture.json`) of every model and device.
        profiles: (folder relative to the report, `profile.json`) of every model and real device.
        distributed: the `distributed.json` of every device surveyed.
        safety: the section that `minicompile.report.safety_report` writes.
        compared: the `simulated_vs_real.json` of every model.
        language: of the text, and so of `safety`.
        health: the `compile_health.json` of every captured model and device.
    """
    measured = [profile for _, profile in profiles]
    views = [capture_view(capture, folder, language) for folder, capture in captures]
    made = Measured(views, measured, health, distributed, compared)
    values = {
        "views": views,
        "five": five_sentences(made, language),
        "matters": what_matters(made, language),
        "mapping": mapping(views, [capture for _, capture in captures], language),
        "tied": tied(views),
        "refusals": refusals([capture for _, capture in captures], language=language),
        "profiles": [
            {**profile, "folder": folder, "sentences": interpretation(profile, language)}
            for folder, profile in profiles
        ],
        "matches": matches(measured),
        "devices": [made["provenance"]["device"] for made in distributed],
        "safety": safety,
        "compared": [comparison_view(made, language) for made in compared],
    }
    text = render("minicompile.report", "report_25", language, values, filters=words.filters(language))
    return re.sub(r"\n{3,}", "\n\n", text)  # parts that are absent leave their blank lines behind


def manifest_25(
    seed: int, captures: Sequence[tuple[str, Capture]], profiles: list[dict], files: dict[str, str]
) -> dict:
    """Write the experiment of stage 25 down, in the form of stage 24's manifest.

    Args:
        seed: of the model's training.
        captures: as `report_25` takes them.
        profiles: the `profile.json` of every model and real device.
        files: what a reader opens, by name, relative to the results.
    """
    newest = max((capture["provenance"] for _, capture in captures), key=lambda made: made["date"])
    return {
        "experiment": "25-compile",
        "date": newest["date"][:10],
        "seed": seed,
        "versions": newest["versions"],
        "compile_match": matches(profiles),
        "captures": [
            {
                "model": view["model"],
                "device": view["device"],
                "simulated": view["simulated"],
                "kernel": str(PurePosixPath(view["kernel"])),
                "kernels": sum(graph["kernels"] for graph in view["graphs"]),
                "unwritten_bytes": sum(graph["unwritten_bytes"] for graph in view["graphs"]),
                "graph_breaks": view["graph_breaks"],
                "pattern": pattern(capture),
            }
            for view, capture in ((capture_view(capture, folder), capture) for folder, capture in captures)
        ],
        "files": files,
    }
