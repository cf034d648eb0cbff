"""Count the bytes that a function reads and writes, rather than time it, so that no GPU is needed.

A kernel that takes too many passes shows here before it shows on a clock. Triton's interpreter runs every load and
store of a kernel in NumPy, where the addresses can be counted; PyTorch's eager operations are seen by a dispatch
mode, each reading its operands from memory and writing its result there; C++ of an exercise by calls that its compiler
puts before each load and store. Unless a cache is asked for, none is modelled: a second read that a GPU's cache would
serve counts like the first. CUDA C is seen by nobody.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from minikernel.exercise.cache import LINE, READ, WRITE, Cache
from minikernel.exercise.compiled import Compiled

MOVES_NOTHING = ("aten::empty", "aten::new_empty", "aten::detach", "aten::lift_fresh")  # by how the name begins
OVERWRITES = ("aten::copy_", "aten::fill_", "aten::zero_")  # their first operand is written and not read


class Traffic(NamedTuple):
    """What one call moved, and who moved it.

    Attributes:
        reads, writes: as multiples of the input's bytes; the least that a softmax needs is one of each.
        launches: Triton kernels launched, each over its whole grid.
        tile: elements of the largest piece that a Triton program loads or stores at once; 0 where none does.
        operations: names of PyTorch's operations that moved data, as often as they did.
        moved: what all calls of each of these read and wrote, as multiples of the input's bytes, without a cache.
    """

    reads: float
    writes: float
    launches: int
    tile: int
    operations: list[str]
    moved: dict[str, list[float]]


class _Counter(TorchDispatchMode):
    """Adds up what PyTorch's operations move, and what the interpreter tells it of Triton's."""

    def __init__(self, memory: Cache, shared: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.memory = memory
        self.launches = self.tile = 0
        self.operations: list[str] = []
        self.moved: dict[str, list[float]] = {}  # bytes
        self._shared = [(one.data_ptr(), one.data_ptr() + one.numel() * one.element_size()) for one in shared]

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
        moved = self.moved.setdefault(name, [0, 0])
        for tensor in read[1:] if name.startswith(OVERWRITES) else read:
            moved[0] += self._touch(tensor, READ)
        for tensor in results:
            moved[1] += self._touch(tensor, WRITE)
        return result

    def _touch(self, tensor: torch.Tensor, kind: int) -> int:
        """Count the elements that a tensor really has, and return their bytes: what `expand` repeats counts once."""
        sizes = [size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride]
        if not tensor.numel():
            return 0
        n_bytes = int(np.prod(sizes, dtype=np.int64)) * tensor.element_size()
        self.memory.touch(tensor.data_ptr(), n_bytes, kind)
        return n_bytes

    def touch_addresses(self, addresses: np.ndarray, element_bytes: int, kind: int) -> None:
        """Count what a Triton program loads or stores; operands that all rows share lie in any cache."""
        own = np.unique(addresses)
        for start, end in self._shared:
            own = own[(own < start) | (own >= end)]
        if self.memory.n_bytes:
            self.memory.touch_lines(np.unique(own // LINE).tolist(), kind)
        else:
            self.memory.touch(0, own.size * element_bytes, kind)


def _tensors(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


@contextmanager
def _interpreter_counted(counter: _Counter) -> Iterator[None]:
    """Make Triton's interpreter tell the counter of every load, store and launch, and hide its own copies from it."""
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    launch = GridExecutor.__call__

    def touch(pointers, mask, kind: int) -> None:
        addresses = pointers.data[np.broadcast_to(mask.data, pointers.data.shape)]
        counter.touch_addresses(addresses, pointers.get_element_ty().primitive_bitwidth // 8, kind)
        counter.tile = max(counter.tile, pointers.data.size)

    def counted_load(self, pointers, mask, *more, **named):
        touch(pointers, mask, READ)
        return load(self, pointers, mask, *more, **named)

    def counted_store(self, pointers, value, mask, *more, **named):
        touch(pointers, mask, WRITE)
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


@contextmanager
def _compiled_counted(function: Callable, memory: Cache) -> Iterator[None]:
    """Let C++ of an exercise tell of every line that it touches."""
    if not isinstance(function, Compiled):
        yield
        return
    function.counting = memory
    try:
        yield
    finally:
        function.counting = None


def count_traffic(
    function: Callable[..., torch.Tensor], x: torch.Tensor, *more: torch.Tensor, cache_bytes: int = 0
) -> Traffic:
    """Call a function once and count what it moves.

    Args:
        function: takes `x` and `more`; of PyTorch operations, of Triton in its interpreter (`TRITON_INTERPRET=1` set
            before triton is imported), or C++ out of `minikernel.exercise.compiled`, which needs a cache.
        x: a CPU tensor, whose bytes are the unit.
        more: operands that go with it; what Triton programs read of them does not count.
        cache_bytes: of a cache between the function and the memory; what goes between the two is then counted.
    """
    memory = Cache(cache_bytes)
    counter = _Counter(memory, more)
    interpreted = _interpreter_counted(counter) if find_spec("triton") else nullcontext()
    with interpreted, _compiled_counted(function, memory), counter:
        function(x, *more)
    memory.flush()
    size = x.numel() * x.element_size()
    operations = sorted(counter.operations)
    moved = {name: [part / size for part in parts] for name, parts in sorted(counter.moved.items())}
    read, written = memory.read_bytes / size, memory.written_bytes / size
    return Traffic(read, written, counter.launches, counter.tile, operations, moved)
