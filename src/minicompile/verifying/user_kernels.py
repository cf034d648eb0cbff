"""A user's Triton kernel as a node of the ATen graph: the text is that which the generated code has of it."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from minicompile.torch_private.names import owner
from minicompile.verifying import kernels
from minicompile.verifying.blocks import Unable, pointer_to

TEXT = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)'''", re.S)


@dataclass(frozen=True)
class Noted:
    """What torch keeps of such nodes in a table, which the next compile empties."""

    names: dict[int, str]  # by number the kernel's
    constants: dict[int, dict[str, Any]]  # by number arguments that are no tensors


def noted(module: fx.GraphModule) -> Noted:
    """What the nodes of a graph, and of the graphs within it, refer to."""
    made = Noted({}, {})
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, fx.GraphModule) else ():
            if "kernel_idx" in node.kwargs:
                table = owner("kernel_table").kernel_side_table
                function: Any = table.get_kernel(node.kwargs["kernel_idx"])
                while hasattr(function, "fn") and not hasattr(function, "src"):
                    function = function.fn
                made.names[node.kwargs["kernel_idx"]] = function.__name__
                number = node.kwargs["constant_args_idx"]
                made.constants[number] = dict(table.get_constant_args(number))
    return made


def run(code: str, users: Noted | None, given: dict[str, Any], seconds: float) -> None:
    """Change what a kernel changes.

    Args:
        code: the graph's.
        users: what torch kept of its kernels.
        given: what the node gives, as `triton_kernel_wrapper_mutation` takes it.
        seconds: that it may take.

    Raises:
        Unable: the code has no such kernel, or it cannot be evaluated.
    """
    name = users.names.get(given["kernel_idx"], "") if users is not None else ""
    source = next((text for called, text in TEXT.findall(code) if called == name), None)
    if source is None or users is None:
        raise Unable("user_kernel", name)
    kernel = kernels.kernel_of(name, source)
    constants = kernel.told.get("triton_meta", {}).get("constants", {})
    arguments = {key: one for key, one in constants.items() if isinstance(key, str)}
    arguments |= {**users.constants[given["constant_args_idx"]], **given["kwargs"]}
    passed = {
        key: pointer_to(one, key) if isinstance(one, torch.Tensor) else one
        for key, one in arguments.items()
        if key in kernel.names
    }
    kernels.launch(kernel.function, passed, tuple(int(one) for one in given["grid"][0]), seconds)
