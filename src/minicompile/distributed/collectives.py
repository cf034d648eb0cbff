"""Counts what a training step communicates: every collective, by kind, with its bytes.

A `TorchDispatchMode` (the mechanism of torch's own `CommDebugMode`, which counts calls but no bytes) sees each operator
after autograd. All four patterns end there, each in its own way:

- DDP's reducer is C++ and calls `ProcessGroup::allreduce` from autograd's hooks; that call dispatches
  `c10d::allreduce_`, once a bucket, and autograd's threads inherit the mode.
- FSDP2 calls `all_gather_into_tensor` and `reduce_scatter_tensor`, which dispatch `c10d::_allgather_base_` and
  `c10d::_reduce_scatter_base_`, once a sharded module.
- DTensor uses functional collectives, `_c10d_functional::all_reduce` and its kin.
- Pipelining batches `isend` and `irecv`, which dispatch `c10d::send` and `c10d::recv_`.

What does not pass through a process group (a copy between two GPUs by hand, NVSHMEM) is not seen.
"""

from collections.abc import Callable

from torch import Tensor
from torch.distributed.tensor import DTensor

from minicompile.distributed.rows import Counts
from minicompile.torch_private.tensors import TorchDispatchMode, operator_name, tree_leaves

NAMESPACES = ("c10d", "_c10d_functional", "_dtensor")
NO_DATA = ("wait_tensor", "_wrap_tensor_autograd", "barrier", "monitored_barrier_")


def _bytes(value: object) -> int:
    return sum(leaf.nbytes for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


# Operator -> its kind and where its payload lies. The payload is the whole tensor that the ranks reduce, gather or
# scatter between them: the larger side of an all-gather (its output) and of a reduce-scatter (its input).
PAYLOADS: dict[str, tuple[str, Callable[[tuple], int]]] = {
    "allreduce_": ("all_reduce", lambda args: _bytes(args[0])),
    "allreduce_coalesced_": ("all_reduce", lambda args: _bytes(args[0])),
    "all_reduce": ("all_reduce", lambda args: _bytes(args[0])),
    "all_reduce_": ("all_reduce", lambda args: _bytes(args[0])),
    "allgather_": ("all_gather", lambda args: _bytes(args[0])),
    "_allgather_base_": ("all_gather", lambda args: _bytes(args[0])),
    "all_gather_into_tensor": ("all_gather", lambda args: _bytes(args[0]) * args[1]),
    "reduce_scatter_": ("reduce_scatter", lambda args: _bytes(args[1])),
    "_reduce_scatter_base_": ("reduce_scatter", lambda args: _bytes(args[1])),
    "reduce_scatter_tensor": ("reduce_scatter", lambda args: _bytes(args[0])),
    "broadcast_": ("broadcast", lambda args: _bytes(args[0])),
    "send": ("send", lambda args: _bytes(args[0])),
    "recv_": ("recv", lambda args: _bytes(args[0])),
}


class CollectiveCounter(TorchDispatchMode):
    """Counts collectives while it is entered; an operator that it has no kind for is counted under its own name.

    Attributes:
        counts: what was counted, in the order of first use.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counts = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # DTensor goes first; its local operators and collectives come back here
        namespace, name = func.namespace, operator_name(func)
        if namespace in NAMESPACES and name not in NO_DATA:
            kind, payload = PAYLOADS.get(name, (name, _bytes))
            entry = self.counts.setdefault(kind, {"count": 0, "bytes": 0})
            entry["count"] += 1
            entry["bytes"] += payload(args)
        return func(*args, **(kwargs or {}))
