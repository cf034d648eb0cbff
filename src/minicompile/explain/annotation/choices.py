"""What Inductor chose about one kernel: its configuration, its algorithm, the patterns and layouts behind its nodes.

Plain data for the annotation's template: each fact is a code with its fields, and `evidence`, the lines of the capture
where it can be looked up.
"""

from collections.abc import Iterable

from minicompile.explain.annotation.view import KernelView


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
            best: dict = next((one for one in choice["configurations"] if one["chosen"]), {})
            fact = {
                "code": f"configuration_{choice['decided']}",
                **{key: choice[key] for key in ("kernel", "heuristic", "size_hints", "reduction_hint")},
                "count": len(choice["configurations"]),
                **{key: best.get(key) for key in ("configuration", "milliseconds")},
                "evidence": [f"{view.graph['panes']['code']}:{view.kernel['first']}"],
            }
            found.append(fact)
        elif choice["kind"] == "algorithm" and names & set(choice["nodes"]):
            fact = {
                "code": f"algorithm_{choice['decided']}",
                **{key: choice[key] for key in ("operation", "nodes", "margin")},
                "name": next((one["name"] for one in choice["candidates"] if one["chosen"]), None),
                "count": len(choice["candidates"]),
                "evidence": [f"{view.graph['panes']['aten']}:{line}" for line in choice["lines"] if line],
            }
            found.append(fact)
        elif choice["kind"] == "pattern" and names & {node["name"] for node in choice["after"] if node["pane"]}:
            fact = {
                "code": "pattern",
                **{key: choice[key] for key in ("pattern", "stage")},
                **{side: [node["name"] for node in choice[side]] for side in ("before", "after")},
                "evidence": _lines([*choice["before"], *choice["after"]]),
            }
            found.append(fact)
        elif choice["kind"] == "layout" and choice["copied"]:
            found += [
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
    return found


def _lines(nodes: Iterable[dict]) -> list[str]:
    return [f"{node['pane']}:{node['line']}" for node in nodes if node["pane"] and node["line"]]
