"""What Inductor chose about one kernel: its configuration, its algorithm, the patterns and layouts behind its nodes.

Plain data for the annotation's template: each fact is a code with its fields, and `evidence`, the lines of the capture
where it can be looked up.
"""

from collections.abc import Iterable
from typing import Any

from minicompile.explain.annotation.view import KernelView
from minicompile.lowering.captured import (
    AlgorithmChoice,
    HeuristicChoice,
    LayoutChoice,
    PatternChoice,
    PlacedNode,
)


def chosen(view: KernelView) -> list[dict]:
    """The choices about a kernel, each a `code` with its fields and `evidence`.

    Codes are `configuration_` with how it was decided (`kernel`, `heuristic`, `size_hints`, `reduction_hint`, `count`
    of configurations, the `configuration` chosen and its `milliseconds`, null where unknown); `algorithm_` likewise
    (`operation`, `nodes`, `name` of the chosen candidate, `count` of candidates, `margin`); `pattern` (`pattern`,
    `stage`, names `before` and `after`); `layout_copied` (`by`, `node`, `buffer`).
    """
    names = set(view.call["aten_nodes"]) | {node["name"] for node in view.fused}
    found: list[dict] = []
    for choice in view.capture["choices"]:
        if choice["kind"] == "absent" or choice["graph"] != view.graph["id"]:
            continue
        if choice["kind"] == "heuristic" and choice["kernel"] == view.kernel["name"]:
            found.append(_configuration(view, choice))
        elif choice["kind"] == "algorithm" and names & set(choice["nodes"]):
            found.append(_algorithm(view, choice))
        elif choice["kind"] == "pattern" and names & {node["name"] for node in choice["after"]}:
            found.append(_pattern(choice))
        elif choice["kind"] == "layout" and choice["copied"]:
            found += _layouts(choice, names)
    return found


def _configuration(view: KernelView, choice: HeuristicChoice) -> dict:
    best: Any = next((one for one in choice["configurations"] if one["chosen"]), None)
    return {
        "code": f"configuration_{choice['decided']}",
        **{key: choice[key] for key in ("kernel", "heuristic", "size_hints", "reduction_hint")},
        "count": len(choice["configurations"]),
        "configuration": best and best["configuration"],
        "milliseconds": best and best["milliseconds"],
        "evidence": [f"{view.graph['panes']['code']}:{view.kernel['first']}"],
    }


def _algorithm(view: KernelView, choice: AlgorithmChoice) -> dict:
    best = next((one["name"] for one in choice["candidates"] if one["chosen"]), None)
    return {
        "code": f"algorithm_{choice['decided']}",
        "operation": choice["operation"],
        "nodes": choice["nodes"],
        "name": best,
        "count": len(choice["candidates"]),
        "margin": choice["margin"],
        "evidence": [f"{view.graph['panes']['aten']}:{line}" for line in choice["lines"] if line],
    }


def _pattern(choice: PatternChoice) -> dict:
    return {
        "code": "pattern",
        "pattern": choice["pattern"],
        "stage": choice["stage"],
        "before": [node["name"] for node in choice["before"]],
        "after": [node["name"] for node in choice["after"]],
        "evidence": _lines([*choice["before"], *choice["after"]]),
    }


def _layouts(choice: LayoutChoice, names: set[str]) -> list[dict]:
    return [
        {
            "code": "layout_copied",
            "by": choice["by"],
            "node": demand["name"],
            "buffer": demand["buffer"],
            "evidence": _lines([demand]),
        }
        for demand in choice["demands"]
        if demand["name"] in names
    ]


def _lines(nodes: Iterable[PlacedNode]) -> list[str]:
    return [f"{node['pane']}:{node['line']}" for node in nodes if node["pane"] and node["line"]]
