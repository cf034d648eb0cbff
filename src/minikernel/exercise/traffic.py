"""Count the bytes that a softmax reads and writes, rather than time it, so that no GPU is needed.

A kernel that takes too many passes shows here before it shows on a clock. Triton's interpreter runs every load and
store of a kernel in NumPy, where the addresses can be counted; PyTorch's eager operations are seen by a dispatch
mode, each reading its operands from memory and writing its result there. Caches are not modelled: a second read that
a GPU's cache would serve counts like the first. CUDA C is seen by neither.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

MOVES_NOTHING = ("aten::empty", "aten::new_empty", "aten::detach", "aten::lift_fresh")  # by how the name begins
OVERWRITES = ("aten::copy_", "aten::fill_", "aten::zero_")  # their first operand is written and not read


class Traffic(NamedTuple):
    """What one call moved, and who moved it.

    Attributes:
        reads, writes: as multiples of the input's bytes; the least that a softmax needs is one of each.
        launches: Triton kernels launched, each over its whole grid.
        operations: names of PyTorch's operations that moved data, as often as they did.
    """

    reads: float
    writes: float
    launches: int
    operations: list[str]


class _Counter(TorchDispatchMode):
    """Adds up what PyTorch's operations move, and what the interpreter tells it of Triton's."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = self.written_bytes = self.launches = 0
        self.operations: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name, schema = function.name(), function._schema
        operands, results = _tensors((args, kwargs)), _tensors(result)
        storages = {operand.untyped_storage().data_ptr() for operand in operands} - {0}  # 0: of no bytes
        is_view = not schema.is_mutable and any(part.untyped_storage().data_ptr() in storages for part in results)
        if is_view or not results or name.startswith(MOVES_NOTHING):
            return result
        only_written = {part.name for part in schema.arguments if part.kwarg_only and part.alias_info}  # out=
        read = _tensors((args, {key: value for key, value in kwargs.items() if key not in only_written}))
        self.operations.append(name)
        self.read_bytes += sum(map(_bytes, read[1:] if name.startswith(OVERWRITES) else read))
        self.written_bytes += sum(map(_bytes, results))
        return result


def _tensors(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _bytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements that a tensor really has: what `expand` repeats counts once."""
    sizes = [size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride]
    return int(np.prod(sizes, dtype=np.int64)) * tensor.element_size() if tensor.numel() else 0


@contextmanager
def _interpreter_counted(counter: _Counter) -> Iterator[None]:
    """Make Triton's interpreter tell the counter of every load, store and launch, and hide its own copies from it."""
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    launch = GridExecutor.__call__

    def moved(pointers, mask) -> int:
        addresses = pointers.data[np.broadcast_to(mask.data, pointers.data.shape)]
        return np.unique(addresses).size * pointers.get_element_ty().primitive_bitwidth // 8

    def counted_load(self, pointers, mask, *more, **named):
        counter.read_bytes += moved(pointers, mask)
        return load(self, pointers, mask, *more, **named)

    def counted_store(self, pointers, value, mask, *more, **named):
        counter.written_bytes += moved(pointers, mask)
        return store(self, pointers, value, mask, *more, **named)

    def counted_launch(self, *arguments, **named):
        counter.launches += 1
        with _disable_current_modes():
            return launch(self, *arguments, **named)

    InterpreterBuilder.create_masked_load = counted_load
    InterpreterBuilder.create_masked_store = counted_store
    GridExecutor.__call__ = counted_launch
    try:
        yield
    finally:
        InterpreterBuilder.create_masked_load = load
        InterpreterBuilder.create_masked_store = store
        GridExecutor.__call__ = launch


def count_traffic(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Traffic:
    """Call a softmax once and count what it moves.

    Args:
        function: tensor -> softmax over its last axis, of PyTorch operations, or of Triton in its interpreter
            (`TRITON_INTERPRET=1` set before triton is imported).
        x: a CPU tensor.
    """
    counter = _Counter()
    with _interpreter_counted(counter) if find_spec("triton") else nullcontext(), counter:
        function(x)
    size = x.numel() * x.element_size()
    return Traffic(
        counter.read_bytes / size, counter.written_bytes / size, counter.launches, sorted(counter.operations)
    )
