"""Which of the model's layers each ATen node was made in: the module whose `forward` ran when Dynamo saw it."""

from collections.abc import Iterable

from minicompile.lowering.captured import Graph

Stack = list[list[str]]  # [qualified path, class] of the modules that were running, the outermost first


def layer_stack(node: dict, origins: Iterable[dict]) -> Stack:
    """The modules of an ATen node: its own record of them, or else that of the first of Dynamo's nodes that has one.

    Args:
        node: an FX node as `torch_private.snapshot.fx_node` gives it; a backward node has its forward node's modules.
        origins: the nodes of Dynamo's that it comes from.
    """
    return next((one["modules"] for one in (node, *origins) if one["modules"]), [])


def with_layers(graph: Graph, stacks: dict[str, Stack]) -> Graph:
    """A graph whose nodes name their `layer`, the innermost module, and whose `layers` give the class of each.

    Args:
        graph: stays as it is.
        stacks: by the ATen node's name; empty where it was made outside of every layer.
    """
    # the modules around too, which contain layers and compute nothing themselves
    layers = {path: kind for stack in stacks.values() for path, kind in stack}
    nodes = [
        {**node, "layer": stack[-1][0] if (stack := stacks.get(node["name"], [])) else None} for node in graph["nodes"]
    ]
    return {**graph, "nodes": nodes, "layers": layers}  # type: ignore[typeddict-item]  # a Node with one key more
