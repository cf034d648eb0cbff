"""What happened to the graph before it was lowered: patterns replaced, operations taken apart, layouts asked for."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from minicompile.torch_private.names import owner
from minicompile.watching.choosing.hooking import Hooks, aside
from minicompile.watching.snapshot import number

STAGES = {
    "pre_grad_passes": "pre_grad",
    "joint_graph_passes": "joint",
    "post_grad_passes": "post_grad",
    "freezing_passes": "freezing",
}
OWN_VIEWS = ("create_reinterpret_view",)  # a template's of its own operands while it is written
ENTRIES = ("lowering_pattern", "graph_pattern", "replacement_pattern")


class Passes:
    """Pattern matches and decompositions of the graph that is being compiled."""

    def __init__(self) -> None:
        self._matches: list[dict] = []
        self._decomposed: dict[str, Counter] = {}
        self._times: Counter = Counter()
        self._depth = 0  # of pattern passes: within one, patterns are traced again to check them
        self._preparing = 0  # patterns are being traced, which decomposes and matches on its own account
        self._layers = 0  # of decompositions

    def patches(self, hooks: Hooks) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        yield from hooks.around("pattern_pass", self._pass)
        for name in ENTRIES:
            yield from hooks.around(name, self._entry)
        for name in ("joint_patterns", "post_grad_patterns"):
            yield from hooks.around(name, self._quiet)
        yield from hooks.around("decomposition", self._decomposition)

    def take(self) -> tuple[list[dict], list[dict]]:
        """Matches (`stage`, `pattern`, `replacement`, `before`, `after`), and decompositions (`operation`, `count`,
        `became`, how many of each operation)."""
        decomposed = [
            {"operation": operation, "count": self._times[operation], "became": dict(became)}
            for operation, became in self._decomposed.items()
        ]
        matches = self._matches
        self._matches, self._decomposed, self._times = [], {}, Counter()
        return matches, decomposed

    def _quiet(self, original):
        def prepare(*args, **kwargs):
            self._preparing += 1
            try:
                return original(*args, **kwargs)
            finally:
                self._preparing -= 1

        return prepare

    def _pass(self, original):
        def apply(passes, *args, **kwargs):
            self._depth += 1
            try:
                return original(passes, *args, **kwargs)
            finally:
                self._depth -= 1

        return apply

    def _entry(self, original):
        def apply(entry, match, graph, node, *args, **kwargs):
            if self._depth > 1 or self._preparing:
                return original(entry, match, graph, node, *args, **kwargs)
            known, record = {id(one) for one in graph.nodes}, _matched(entry, match)
            result = original(entry, match, graph, node, *args, **kwargs)
            if record:
                after = [_named(one) for one in graph.nodes if id(one) not in known]
                self._matches.append({**record, "after": after})
            return result

        return apply

    def _decomposition(self, original):
        def maybe_handle_decomp(mode, op, args, kwargs, *others):
            if self._depth or self._preparing or self._layers:
                return original(mode, op, args, kwargs, *others)
            graph = mode.tracer.graph
            last = next(iter(reversed(graph.nodes)), None)
            self._layers += 1
            try:
                result = original(mode, op, args, kwargs, *others)
            finally:
                self._layers -= 1
            if result is not NotImplemented:
                became = self._decomposed.setdefault(str(op), Counter())
                became.update(_target(node.target) for node in _after(graph, last) if node.op == "call_function")
                self._times[str(op)] += 1
            return result

        return maybe_handle_decomp


def _after(graph: torch.fx.Graph, last: torch.fx.Node | None) -> list[torch.fx.Node]:
    """The nodes that came after `last`."""
    found: list[torch.fx.Node] = []
    for node in reversed(graph.nodes):
        if node is last:
            break
        found.append(node)
    return found[::-1]


@aside
def _matched(entry: Any, match: Any) -> dict:
    return {"stage": _stage(), **_names(entry), "before": [_named(one) for one in match.nodes]}


def _stage() -> str | None:
    """The group of passes that is running, by the functions on the stack."""
    frame = sys._getframe(1)
    while frame is not None:
        if stage := STAGES.get(frame.f_code.co_name):
            return stage
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _names(entry: Any) -> dict:
    """A pattern's name and its replacement's: a name given, a handler's, or those of the functions that were traced."""
    handler = getattr(entry, "handler", None)
    check = getattr(entry, "extra_check", None)
    traced = dict(zip(getattr(getattr(check, "__code__", None), "co_freevars", ()), _cells(check), strict=False))
    search, replace = (_function(traced.get(name)) for name in ("search_fn", "replace_fn"))
    return {
        "pattern": getattr(entry, "pattern_name", None) or search or _function(handler) or type(entry.pattern).__name__,
        "replacement": replace or _function(handler),
    }


def _cells(function: Any) -> list:
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled
            found.append(None)
    return found


def _function(value: Any) -> str | None:
    while hasattr(value, "func"):
        value = value.func
    return getattr(value, "__name__", None)


def _named(node: torch.fx.Node) -> dict:
    target = node.target
    return {"name": node.name, "target": target if isinstance(target, str) else _target(target)}


def _target(target: Any) -> str:
    text = str(target)
    return getattr(target, "__name__", text) if text.startswith("<") else text  # a function, with its address


class Layouts:
    """Layouts that library calls and constraints asked for, in the graph that is being compiled."""

    ASKED = ("require_strides", "require_contiguous", "require_stride1")

    def __init__(self) -> None:
        self._asked: dict[tuple, dict] = {}
        self._depth = 0

    def patches(self, hooks: Hooks) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        for name in self.ASKED:
            yield from hooks.around(name, self._ask(name))

    def take(self, graph: Any) -> list[dict]:
        """The demands so far, each once: `node`, `target`, `by`, `wanted`, `buffer`, `copied`.

        Args:
            graph: the live `GraphLowering`, which may have chosen channels-last for all its convolutions.
        """
        asked, self._asked = list(self._asked.values()), {}
        if getattr(graph, "layout_opt", False):
            everywhere = {"node": None, "target": None, "by": "layout_opt", "buffer": None, "copied": False}
            asked.insert(0, {**everywhere, "wanted": {"code": "channels_last"}})
        return asked

    def _ask(self, name: str):
        def wrap(original):
            def require(cls, x, *args, **kwargs):
                self._depth += 1
                try:
                    result = original(cls, x, *args, **kwargs)
                finally:
                    self._depth -= 1
                if not self._depth:
                    self._record(_asker(), name, args, kwargs, x, result)
                return result

            return require

        return wrap

    @aside
    def _record(self, by: str | None, name: str, args: tuple, kwargs: dict, x: Any, result: Any) -> None:
        node, wanted = getattr(owner("V").V.graph, "current_node", None), _wanted(name, args, kwargs)
        before, after = _buffer_name(x), _buffer_name(result)
        copied = after is not None and before is not None and after != before
        if by in OWN_VIEWS or (wanted["code"] == "stride1" and not copied):
            return
        target = _target(node.target) if node is not None and not isinstance(node.target, str) else None
        record = {
            "node": getattr(node, "name", None),
            "target": target,
            "by": by or target or "call_function",
            "wanted": wanted,
            "buffer": before,
            "copied": copied,
        }
        self._asked.setdefault((record["node"], record["by"], str(wanted), before), record)


def _wanted(name: str, args: tuple, kwargs: dict) -> dict:
    if name != "require_strides":
        return {"code": name.removeprefix("require_")}
    given = dict(zip(("order", "exact_strides"), args, strict=False)) | kwargs
    for key in ("order", "exact_strides"):
        if given.get(key) is not None:
            return {"code": key, "values": [number(value) for value in given[key]]}
    return {"code": "strides"}


def _asker() -> str | None:
    """The first function on the stack that is not itself one of those that ask; None where an operation's tag asks."""
    frame = sys._getframe(2)
    while frame.f_back is not None and (
        frame.f_code.co_name.startswith(("require", "<")) or frame.f_code.co_filename.endswith("_pytree.py")
    ):
        frame = frame.f_back
    return None if frame.f_code.co_name == "call_function" else frame.f_code.co_name


def _buffer_name(value: Any) -> str | None:
    try:
        return value.get_name()
    except (AttributeError, NotImplementedError):
        return None
