"""Writes the report of stage 25 and its manifest: every figure is an artefact's, and the figures decide every sentence.

This module works out what there is to say of the captures; `templates/report_25.md` says it, beside what
`profile_report` has to say of the times.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from minicompile.explain.wording import Wording
from minicompile.lowering.captured import Capture, Graph
from minicompile.report import words
from minicompile.report.profile_report import interpretation
from minilab.templates import render

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
    unwritten = sum(node["bytes"] or 0 for node in graph["nodes"] if node["fate"] in NOT_WRITTEN)
    return {
        "id": graph["id"],
        "direction": graph["direction"],
        "operations": sum(fates.values()) - fates["view"],
        "fates": dict(fates),
        "kernels": len(graph["kernels"]),
        "calls": sum(not call["extern"] for call in graph["calls"]),
        "extern_calls": sum(call["extern"] for call in graph["calls"]),
        "fusions": sum(decision["taken"] for decision in graph["decisions"]),
        "refused": sum(not decision["taken"] for decision in graph["decisions"]),
        "unwritten_bytes": unwritten,
        "removed_buffers": sum(buffer["removed"] for buffer in graph["buffers"]),
        "coverage": {what: pair for what, pair in graph["coverage"].items() if what != "missing"},
    }


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
) -> str:
    """Write `results/25/REPORT.md`, in Markdown.

    Args:
        captures: (folder relative to the report, `capture.json`) of every model and device.
        profiles: (folder relative to the report, `profile.json`) of every model and real device.
        distributed: the `distributed.json` of every device surveyed.
        safety: the section that `minicompile.report.safety_report` writes.
        compared: the `simulated_vs_real.json` of every model.
        language: of the text, and so of `safety`.
    """
    views = [capture_view(capture, folder, language) for folder, capture in captures]
    values = {
        "views": views,
        "models": list(dict.fromkeys(view["model"] for view in views)),
        "refusals": refusals([capture for _, capture in captures], language=language),
        "profiles": [
            {**profile, "folder": folder, "sentences": interpretation(profile, language)}
            for folder, profile in profiles
        ],
        "matches": matches([profile for _, profile in profiles]),
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
            }
            for view in (capture_view(capture, folder) for folder, capture in captures)
        ],
        "files": files,
    }
