"""What Inductor chose between, as the capture holds it: one record a choice, tied to its graph, nodes and lines.

Equal choices about several nodes, such as the same product in each layer, are one record with all those nodes. The code
of candidates stands once, under an id of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minicompile.lowering.captured import Graph, Kind, Pane, SchedulerNode
from minicompile.lowering.panes.printed_text import definition_lines

KINDS = ("algorithm", "clock", "heuristic", "pattern", "decomposition", "layout", "absent")


def chosen(
    built: Sequence[dict],
    absent: Sequence[str],
    graphs: Sequence[Graph],
    panes: Sequence[Pane],
    target: Kind,
) -> tuple[list[dict], dict[str, str]]:
    """Every choice of a compile, by kind and graph; and the code of candidates by the ids that these name.

    Args:
        built: what a `Watched` holds of each graph.
        absent: private functions of torch's that are missing.
        graphs: the same graphs as they were built.
        panes: of the capture.
        target: what the code was made for.
    """
    texts = {pane["id"]: pane["lines"] for pane in panes}
    sources: dict[str, str] = {}  # ids by text, which equal candidates share
    found: dict[str, list[dict]] = {kind: [] for kind in KINDS}
    for lowered, graph in zip(built, graphs, strict=True):
        places, taken = _Places(graph, texts), lowered["choices"]
        made = {
            "algorithm": _algorithms(taken["algorithm"], places, sources),
            "clock": [_clock(one, places) for one in taken["clock"]],
            "heuristic": _heuristics(lowered["triton"], target),
            "pattern": [_pattern(one, places) for one in taken["pattern"]],
            "decomposition": taken["decomposition"],
            "layout": _layouts(taken["layout"], places, graph),
        }
        for kind, its in made.items():
            found[kind] += [{"kind": kind, "graph": graph["id"], **one} for one in its]
    if absent:
        found["absent"] = [{"kind": "absent", "names": [*absent]}]
    return [one for its in found.values() for one in its], {given: text for text, given in sources.items()}


class _Places:
    """Where nodes are defined: in the graph's ATen pane, and in the joint graph from which it comes."""

    def __init__(self, graph: Graph, texts: Mapping[str, list[str]]) -> None:
        self._aten = graph["panes"]["aten"], {node["name"]: node["line"] for node in graph["nodes"]}
        joint = f"joint.{graph['index']}"
        self._joint = joint, definition_lines(texts.get(joint, []))

    def aten(self, name: str | None) -> int | None:
        return self._aten[1].get(name or "")

    def placed(self, name: str, target: str | None, stage: str | None = None) -> dict:
        """A node with its line: of the graph that was worked on, or where that is not shown, of the other one."""
        for pane, lines in (self._joint, self._aten) if stage == "joint" else (self._aten, self._joint):
            if line := lines.get(name):
                return {"name": name, "target": target, "pane": pane, "line": line}
        return self.nowhere({"name": name, "target": target})

    def nowhere(self, node: Mapping[str, Any]) -> dict:
        """A node that is in neither, or of which it is not known where."""
        return {"name": node["name"], "target": node["target"], "pane": None, "line": None}


def _algorithms(asked: Iterable[dict], places: _Places, sources: dict[str, str]) -> list[dict]:
    """Selected algorithms; an operation of which each time is the same measurement is one record."""
    found: dict[str, Any] = {}
    for one in asked:
        candidates = [
            {
                **each,
                "source": sources.setdefault(text, f"candidate.{len(sources)}") if (text := each["source"]) else None,
            }
            for each in one["candidates"]
        ]
        # Inductor counts its candidates up (triton_mm_7), so that equal ones differ in their names
        alike = [{key: value for key, value in each.items() if key != "name"} for each in candidates]
        key = repr((one["operation"], one["inputs"], one["output"], one["max_autotune"], one["deferred"], alike))
        if key not in found:
            found[key] = {
                "nodes": [],
                "lines": [],
                **{key: one[key] for key in ("operation", "inputs", "output", "max_autotune", "deferred", "decided")},
                "candidates": sorted(candidates, key=_by_time),
                "margin": _margin(candidates),
            }
        if one["node"]:
            found[key]["nodes"].append(one["node"])
            found[key]["lines"].append(places.aten(one["node"]))
    return list(found.values())


def _by_time(candidate: dict) -> tuple:
    return not candidate["chosen"], candidate["milliseconds"] is None, candidate["milliseconds"] or 0.0


def _margin(candidates: list[dict]) -> float | None:
    """How many times as long the fastest of the others took as the chosen one; None where either was not timed."""
    chosen = [one["milliseconds"] for one in candidates if one["chosen"] and one["milliseconds"]]
    others = [one["milliseconds"] for one in candidates if not one["chosen"] and one["milliseconds"]]
    # the chosen one may be slower than another: what is fused to it was timed with it
    return min(others) / chosen[0] if chosen and others else None


def _clock(one: dict, places: _Places) -> dict:
    facts = {key: one[key] for key in ("operation", "inputs", "padded", "plain_ms", "padded_ms", "how")}
    return {**facts, "nodes": [places.placed(name, None, "joint") for name in one["nodes"]]}


def _pattern(one: dict, places: _Places) -> dict:
    sides = {
        side: [
            places.placed(node["name"], node["target"], one["stage"]) if one["placed"] else places.nowhere(node)
            for node in one[side]
        ]
        for side in ("before", "after")
    }
    return {**{key: one[key] for key in ("stage", "pattern", "replacement")}, **sides}


def _layouts(asked: Iterable[dict], places: _Places, graph: Graph) -> list[dict]:
    """Demands on layouts, those of one asker for one layout together."""
    found: dict[str, Any] = {}
    for one in asked:
        # a copy may have been prepared that nothing takes, so that it is not made
        copied = one["copied"] and _copy_is_made(one["node"], one["buffer"], graph["scheduler_nodes"])
        key = repr((one["by"], one["wanted"], copied))
        record = found.setdefault(key, {"by": one["by"], "wanted": one["wanted"], "copied": copied, "demands": []})
        if one["node"]:
            record["demands"].append({**places.placed(one["node"], one["target"]), "buffer": one["buffer"]})
    return list(found.values())


def _copy_is_made(node: str | None, buffer: str, scheduled: Sequence[SchedulerNode]) -> bool:
    """Whether a loop that does nothing else copies a buffer for an ATen node."""
    for one in scheduled:
        moves = {operation["operation"] for operation in one["operations"]}
        if moves == {"load", "store"} and {read["buffer"] for read in one["reads"]} == {buffer}:
            takers = [other for other in scheduled if {read["buffer"] for read in other["reads"]} & {*one["buffers"]}]
            if node is None or any(node in taker["origins"] for taker in (one, *takers)):
                return True
    return False


def _heuristics(kernels: Mapping[str, dict], target: Kind) -> list[dict]:
    """What was proposed for each Triton kernel, and what was timed."""
    found = []
    for name, seen in kernels.items():
        if seen["heuristic"] is None:
            continue
        facts = dict(seen["heuristic"])
        simulated = target == "simulated"
        # nothing ran on a simulated GPU: what its clock says is no time of a kernel
        times = [] if simulated else seen["times"]
        best = seen["best"] if times else None
        configurations = facts.pop("configurations")
        # coordinate descent goes on from the best of those proposed, and times its own
        tried = [configuration for configuration, _ in times if configuration not in configurations]
        # with one configuration Inductor times nothing and takes it
        alone = len(configurations) == 1 and not tried
        unmeasured = "simulated" if simulated else "untimed"
        found.append(
            {
                "kernel": name,
                **facts,
                "decided": "only_one" if alone else "timed" if times else unmeasured,
                "configurations": [
                    {
                        "configuration": configuration,
                        "milliseconds": next((ms for timed, ms in times if timed == configuration), None),
                        "proposed": configuration in configurations,
                        "chosen": alone or configuration == best,
                    }
                    for configuration in [*configurations, *tried]
                ],
            }
        )
    return found
