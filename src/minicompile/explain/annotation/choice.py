"""Which kernel of a capture is the one to explain.

The rule, in order: a kernel that Inductor wrote rather than a user's own; one whose fused group holds a softmax's
reduction (the largest value, and the sum of the exponentials taken relative to it); then, among several such, the one
that moves most bytes, and elsewhere the one that computes most ATen operations, of those the one that moves most
bytes; then the first.
"""

from collections.abc import Iterator

from minicompile.explain.annotation.view import KernelView
from minicompile.lowering.captured import Capture, Node

ONLINE_SOFTMAX = "online_softmax_reduce"  # Inductor's reduction that finds both in one pass


def most_interesting(capture: Capture, reader: str = "en") -> KernelView | None:
    """The kernel call to explain, in the reader's language; None where all calls are a library's."""
    views = [
        KernelView(capture, graph, call, reader)
        for graph in capture["graphs"]
        for call in graph["calls"]
        if not call["extern"]
    ]
    return max(views, key=_interest, default=None)  # the first of equals


def holds_softmax(view: KernelView) -> bool:
    """Whether the kernel's scheduler nodes reduce as a softmax does: a maximum, then a sum of exp(x - maximum)."""
    if any(node["reduction_type"] == ONLINE_SOFTMAX for node in view.scheduler_nodes):
        return True
    return any(
        any(True for _ in _chain(view, total, ["aten.exp", "aten.sub", "aten.amax"]))
        for total in view.fused
        if _is(total, "aten.sum")
    )


def _interest(view: KernelView) -> tuple:
    users_own = any(node["user_triton"] for node in view.scheduler_nodes)
    softmax = holds_softmax(view)
    moved = view.call["bytes"] or 0
    return (not users_own, softmax, 0 if softmax else len(view.fused), moved)


def _is(node: Node, target: str) -> bool:
    return node["target"].startswith(target + ".")


def _chain(view: KernelView, node: Node, targets: list[str]) -> Iterator[Node]:
    """Nodes that are reached from `node`, against the data's flow, by way of these targets one after another."""
    if not targets:
        yield node
        return
    for one in _inputs(view, node):
        if _is(one, targets[0]):
            yield from _chain(view, one, targets[1:])


def _inputs(view: KernelView, node: Node) -> Iterator[Node]:
    """A node's inputs that the kernel computes, seen through views and conversions of dtype."""
    inside = {fused["name"] for fused in view.fused}
    for name in node["inputs"]:
        one = view.nodes[name]
        if one["fate"] == "view" or _is(one, "prims.convert_element_type"):
            yield from _inputs(view, one)
        elif name in inside:
            yield one
