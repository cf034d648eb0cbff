"""Which kernel of a capture is the one to explain.

The rule, in order: a kernel that Inductor wrote rather than a user's own; one whose softmax the graph returns, since
then the softmax is the model's point; then the one that moves the most bytes, each call counted as often as it runs;
then the first.
"""

from minicompile.explain.annotation.headline import named_whole, passes_on
from minicompile.explain.annotation.view import KernelView
from minicompile.lowering.captured import Call, Capture, Node
from minicompile.lowering.inner_graphs import times
from minilab import LabError


def views_of(capture: Capture, reader: str = "en") -> list[KernelView]:
    """Every call of a generated kernel, in the reader's language."""
    return [
        KernelView(capture, graph, call, reader)
        for graph in capture["graphs"]
        for call in graph["calls"]
        if not call["extern"]
    ]


def most_interesting(capture: Capture, reader: str = "en") -> KernelView | None:
    """The kernel call to explain, in the reader's language; None where all calls are a library's."""
    return max(views_of(capture, reader), key=_interest, default=None)  # the first of equals


def asked_for(capture: Capture, kernel: str, reader: str = "en") -> KernelView:
    """The first call of a kernel that a reader asks for by its name, or the call of that id.

    Raises:
        LabError: the capture has no such kernel; the sentence names those that it has.
    """
    views = views_of(capture, reader)
    found = [view for view in views if kernel in (view.call["kernel"], view.call["id"])]
    if not found:
        names = ", ".join(dict.fromkeys(view.call["kernel"] for view in views)) or "none that Inductor wrote"
        raise LabError(f"The capture of {capture['model']['name']} has no kernel {kernel!r}; it has {names}.")
    return found[0]


def returns_softmax(view: KernelView) -> bool:
    """Whether the kernel holds a softmax that the graph returns, perhaps converted or seen through views."""
    whole = named_whole(view)
    if whole is None or whole.name not in ("softmax", "log_softmax"):
        return False
    return _returned(view, view.nodes[whole.result])


def _returned(view: KernelView, node: Node) -> bool:
    users = view.users(node["name"])
    passed_on = [user for user in users if user in view.fused and passes_on(view, user)]
    return any(user["op"] == "output" for user in users) or any(_returned(view, user) for user in passed_on)


def bytes_in_all(call: Call) -> int | None:
    """What a call moves, as often as it runs; None where a size is not known."""
    return None if call["bytes"] is None else call["bytes"] * times(call)


def _interest(view: KernelView) -> tuple:
    users_own = any(node["user_triton"] for node in view.scheduler_nodes)
    return not users_own, returns_softmax(view), bytes_in_all(view.call) or 0
