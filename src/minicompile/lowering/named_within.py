"""Which graph the names in what Inductor chose belong to: the graph itself, or one within it, a branch or a region.

A pattern or a demand on a layout names nodes as their own graph does, so that the same name may be meant of several.
"""

from collections.abc import Iterable, Mapping
from typing import Any


class NamedWithin:
    """Leads the bare names of nodes to those of a capture, which are `true_graph_0.cos` within a branch.

    Args:
        lowered: one of a `Watched`'s.
        joint: the nodes of the graph before Inductor's passes; none where that was not seen.
    """

    def __init__(self, lowered: Mapping[str, Any], joint: Iterable[Mapping[str, Any]]) -> None:
        self._nodes = {node["name"]: node for node in lowered["aten"]["nodes"]}
        self._joint = {node["name"]: node for node in joint}
        inner = {name[: name.rfind(".") + 1] for name in self._nodes} - {""}
        self._within = ["", *sorted(inner)]

    def match(self, match: dict) -> dict:
        """A pattern's match with its nodes as the capture names them; `placed` says whether it is known where."""
        before, after = ([node["name"] for node in match[side]] for side in ("before", "after"))
        within = [one for one in self._within if after and all(one + name in self._nodes for name in after)]
        # what was put there may be gone again itself
        within = within or [one for one in self._within if all(one + name in self._joint for name in before)]
        if len(within) > 1:  # what a pattern puts in the place of nodes has the origins of those
            within = [one for one in within if self._origins(self._joint, one, before, after)]
        if len(self._within) > 1 and len(within) != 1:
            return {**match, "placed": False}
        prefix = within[0] if within else ""
        named = {side: [{**one, "name": prefix + one["name"]} for one in match[side]] for side in ("before", "after")}
        return {**match, **named, "placed": True}

    def _origins(self, joint: Mapping[str, Any], within: str, before: list[str], after: list[str]) -> bool:
        """Whether some node that is there has an origin of one that is gone."""
        gone = {tuple(one) for name in before for one in joint.get(within + name, {}).get("origins", ())}
        return any(tuple(one) in gone for name in after for one in self._nodes[within + name]["origins"])

    def demand(self, demand: dict) -> dict:
        """A demand on a layout with its node as the capture names it; without one where that may be of several."""
        name = demand["node"]
        if name is None or len(self._within) == 1:
            return demand
        within = [one for one in self._within if self._is(one + name, demand["target"])]
        if demand["buffer"]:  # which is named after its graph
            ends = (one for one in self._within[1:] if demand["buffer"].startswith(one.replace(".", "_")))
            graph = next(ends, "")
            within = [one for one in within if one == graph]
        return {**demand, "node": within[0] + name if len(within) == 1 else None}

    def asked(self, choice: dict) -> dict:
        """A choice of an algorithm with its node as the capture names it; without one where that may be of several."""
        within = [
            one + choice["node"] for one in self._within if choice["node"] and one + choice["node"] in self._nodes
        ]
        return choice if len(self._within) == 1 else {**choice, "node": within[0] if len(within) == 1 else None}

    def _is(self, name: str, target: str | None) -> bool:
        node = self._nodes.get(name)
        # an input has none, and a part of a result is told by the function's own name
        return node is not None and (target is None or node["target"].endswith(target))
