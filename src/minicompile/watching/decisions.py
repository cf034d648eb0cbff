"""Every fusion that Inductor's scheduler considered: taken, or refused and why.

`Scheduler.can_fuse` is asked about pairs of scheduler nodes; where it refuses, it mostly says why through a
`WhyNoFuse`. The reasons given while one question is open belong to that pair. Some of the C++ backend's checks
refuse without a word: then the check itself is named.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from unittest import mock

from minicompile.torch_private.names import owner


class FusionDecisions:
    """The decisions about the graph that is being compiled; `take` hands them over."""

    def __init__(self) -> None:
        self._decisions: dict[tuple, dict] = {}
        self._allowed: dict[tuple[str, str], dict] = {}
        self._open: list[list[str]] = []

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        scheduler, why = owner("can_fuse"), owner("why")
        for method, patched in {
            "can_fuse": self._can_fuse(scheduler.can_fuse),
            "will_fusion_create_cycle": self._cycle(scheduler.will_fusion_create_cycle),
            "fuse_two_nodes": self._fuse(scheduler.fuse_two_nodes),
        }.items():
            yield mock.patch.object(scheduler, method, patched)
        yield mock.patch.object(why, "__call__", self._reason(why.__call__))
        for name in ("cpp_vertical", "cpp_horizontal"):
            backend, method = owner(name), f"can_fuse_{name.removeprefix('cpp_')}"
            yield mock.patch.object(backend, method, self._silent(getattr(backend, method), method))

    def take(self) -> list[dict]:
        """The decisions so far, in order, each `first`, `second`, `taken`, `reasons`, `shared_buffers`."""
        fused = {frozenset(d["first"] + d["second"]) for d in self._decisions.values() if d["taken"]}
        decided = {(tuple(d["first"]), tuple(d["second"])) for d in self._decisions.values()}
        # A pair that may be fused need not be: pairs are taken by their score, and a better one may have taken a side.
        for pair, decision in self._allowed.items():
            members = frozenset(decision["first"] + decision["second"])
            if pair not in decided and not any(members <= group for group in fused):
                self._decisions[(*pair, False)] = {**decision, "taken": False, "reasons": []}
        decisions = list(self._decisions.values())
        self._decisions, self._allowed = {}, {}
        return decisions

    def _record(self, first, second, taken: bool, reasons: list[str]) -> None:
        pair = _pair(first, second)
        key = (tuple(pair["first"]), tuple(pair["second"]), taken)
        if key in self._decisions:
            known = self._decisions[key]["reasons"]
            known.extend(reason for reason in reasons if reason not in known)
        else:
            self._decisions[key] = {**pair, "taken": taken, "reasons": list(dict.fromkeys(reasons))}

    def _can_fuse(self, original):
        def can_fuse(scheduler, first, second, *args, **kwargs):
            if self._open or first is second:  # a question within a question, or about what is fused already
                return original(scheduler, first, second, *args, **kwargs)
            reasons: list[str] = []
            self._open.append(reasons)
            try:
                allowed = original(scheduler, first, second, *args, **kwargs)
            finally:
                self._open.pop()
            # A yes is no fusion yet: the scheduler looks for a cycle next.
            if allowed:
                pair = _pair(first, second)
                self._allowed[tuple(pair["first"]), tuple(pair["second"])] = pair
            else:
                self._record(first, second, False, reasons)
            return allowed

        return can_fuse

    def _cycle(self, original):
        def will_fusion_create_cycle(scheduler, first, second, *args, **kwargs):
            # It is asked after `can_fuse` has said yes, and gives no reason of its own.
            cycle = original(scheduler, first, second, *args, **kwargs)
            if cycle:
                self._record(first, second, False, ["will create cycle"])
            return cycle

        return will_fusion_create_cycle

    def _fuse(self, original):
        def fuse_two_nodes(scheduler, first, second, *args, **kwargs):
            self._record(first, second, True, [])
            return original(scheduler, first, second, *args, **kwargs)

        return fuse_two_nodes

    def _reason(self, original):
        def reason_given(why, reason, *args):
            if self._open:
                self._open[-1].append(reason % args if args else reason)
            return original(why, reason, *args)

        return reason_given

    def _silent(self, original, method: str):
        def asked(backend, *args, **kwargs):
            allowed = original(backend, *args, **kwargs)
            if not allowed and self._open and not self._open[-1]:
                self._open[-1].append(f"refused by CppScheduling.{method}")
            return allowed

        return asked


def _pair(first, second) -> dict:
    """The scheduler nodes of both sides by name, and the buffers that both touch."""
    shared = first.read_writes.buffer_names() & second.read_writes.buffer_names()
    return {
        "first": [node.get_name() for node in first.get_nodes()],
        "second": [node.get_name() for node in second.get_nodes()],
        "shared_buffers": sorted(shared),
    }
