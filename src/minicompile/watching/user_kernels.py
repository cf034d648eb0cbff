"""The files in which a user's own Triton kernels stand, and the @triton.jit functions that these call."""

from types import FunctionType, ModuleType
from typing import Any

from minicompile.torch_private.names import owner
from minicompile.watching.choosing.hooking import aside


def files_of(graphs: list[Any]) -> list[str]:
    """The files, in the order in which they are met.

    Args:
        graphs: the live `GraphLowering`, and those of the graphs within it.
    """
    kind = owner("ir").UserDefinedTritonKernel
    nodes = [one.node for graph in graphs for node in graph.scheduler.nodes for one in node.get_nodes()]
    files: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, kind):
            files |= dict.fromkeys(_of_kernel(node) or [])
    return list(files)


@aside
def _of_kernel(node: Any) -> list[str]:
    kernel, *_ = node.get_kernel_and_metadata()
    met, waiting = dict[FunctionType, None](), [kernel]
    while waiting:
        function = _function(waiting.pop(0))
        if function is not None and function not in met:
            met[function] = None
            waiting += _named_in(function)
    return [function.__code__.co_filename for function in met]


def _function(value: Any) -> FunctionType | None:
    """The Python function that triton.jit, an autotuner and heuristics are wrapped around; None for anything else."""
    while hasattr(value, "fn"):
        value = value.fn
    return value if isinstance(value, FunctionType) else None


def _named_in(function: FunctionType) -> list[Any]:
    """What is wrapped around a function among the globals, and what modules hold, that a function's code names."""
    names = function.__code__.co_names
    closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = [function.__globals__.get(name) for name in names] + [cell.cell_contents for _, cell in closed]
    held = [getattr(one, name, None) for one in known if isinstance(one, ModuleType) for name in names]
    return [one for one in [*known, *held] if hasattr(one, "fn")]
