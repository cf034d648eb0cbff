"""Where Inductor lowers one ATen operation, and where its scheduler decides on fusing what came of it.

Both are methods through which every operation and every decision passes; a patch in front of each calls back first.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from unittest import mock

from minicompile.torch_private.names import owner
from minilab import LabError

LOWERED_BY = "call_function"  # of GraphLowering, the class that `names` finds by another of its methods


def stopping(
    is_wanted: Callable[[str], bool], at_lowering: Callable[..., object], at_fusion: Callable[..., object]
) -> Iterator[AbstractContextManager]:
    """Patches to enter for the time of a compile.

    Args:
        is_wanted: says of an operation's name, such as `aten._softmax.default`, whether to stop there. An FX node is
            asked about by its target and by the operation that it is a part of.
        at_lowering: called in the place of lowering a wanted node, with `lower` (to be called without arguments, for
            the result) and `node`, `target`, `arguments`, `lowering` (torch's function, or None), `graph`.
        at_fusion: called in the place of deciding on two scheduler nodes of which one holds a node lowered so, with
            `decide` (to be called without arguments), `first`, `second` and `scheduler`.

    Raises:
        LabError: the installed torch lowers operations elsewhere.
    """
    graph_class, scheduler_class, virtual = owner("save_output_code"), owner("can_fuse"), owner("V").V
    if not hasattr(graph_class, LOWERED_BY):
        raise LabError(f"This torch has no GraphLowering.{LOWERED_BY}, at which `step` stops; use a supported version.")
    lower_function, can_fuse = getattr(graph_class, LOWERED_BY), scheduler_class.can_fuse
    run_node = graph_class.run_node  # what Inductor has no code for, complex numbers say, it passes to ATen here
    wanted_nodes: set[str] = set()

    def lowered(graph, target, args, kwargs):
        node = virtual.graph.current_node
        if not any(is_wanted(name) for name in operation_names(node)):
            return lower_function(graph, target, args, kwargs)
        wanted_nodes.add(node.name)
        return at_lowering(
            lower=partial(lower_function, graph, target, args, kwargs),
            node=node,
            target=target,
            arguments=args,
            lowering=owner("lowerings").lowerings.get(target),
            graph=graph,
        )

    def decided(scheduler, first, second, *args, **kwargs):
        if first is second or not wanted_nodes & (origins(first) | origins(second)):
            return can_fuse(scheduler, first, second, *args, **kwargs)
        return at_fusion(
            decide=partial(can_fuse, scheduler, first, second, *args, **kwargs),
            first=first,
            second=second,
            scheduler=scheduler,
        )

    def run(graph, node):
        unsupported = node.op == "call_function" and owner("complex_fallback").fallback_node_due_to_unsupported_type(
            node
        )
        if not unsupported or not any(is_wanted(name) for name in operation_names(node)):
            return run_node(graph, node)
        wanted_nodes.add(node.name)
        lower = partial(run_node, graph, node)
        return at_lowering(lower=lower, node=node, target=node.target, arguments=node.args, lowering=None, graph=graph)

    yield mock.patch.object(graph_class, "run_node", run)
    yield mock.patch.object(graph_class, LOWERED_BY, lowered)
    yield mock.patch.object(scheduler_class, "can_fuse", decided)


def operation_names(node) -> list[str]:
    """The names of an FX node's operation: its own, and that of the operation which it was decomposed from."""
    return [str(name) for name in (node.target, node.meta.get("original_aten")) if name is not None]


def origins(scheduler_node) -> set[str]:
    """Names of the ATen nodes that a scheduler node, fused or not, was made of."""
    return {
        origin.name for one in scheduler_node.get_nodes() if one.node is not None for origin in one.node.get_origins()
    }
