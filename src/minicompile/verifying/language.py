"""Triton's language, its mathematical functions and Inductor's helpers, over the blocks of `blocks.py`.

A kernel's Python runs as it is, in a namespace where `tl` is a `Language`. The helpers are those of the torch that is
installed, read in the same way; the few that wait for another program, or sort, are written here.
"""

import ast
import functools
import math
import re
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from minicompile.torch_private.names import owner
from minicompile.verifying import blocks
from minicompile.verifying.blocks import Block, DType, Memory, Pointer, Unable, block, cast, float32, int1, int32, int64
from minicompile.verifying.random_numbers import integers, normal, uniform


class Program:
    """Which program of the grid runs, and what it touches; what listens to a run takes its place."""

    place: tuple[int, int, int] = (0, 0, 0)
    grid: tuple[int, int, int] = (1, 1, 1)

    def makes_descriptor(self) -> None: ...

    def loaded(self, pointer: Pointer, mask: torch.Tensor | None) -> None: ...

    def stored(self, pointer: Pointer, mask: torch.Tensor | None) -> None: ...


def _shape(shape: Any) -> list[int]:
    return [int(one) for one in (shape if isinstance(shape, Iterable) else [shape])]


def _mask(mask: Any, shape: torch.Size) -> torch.Tensor | None:
    return None if mask is None else torch.broadcast_to(cast(mask, int1).values, shape)


def _value(one: Any) -> Any:
    return one.__index__() if isinstance(one, Block) else one


class _Constexpr:
    """`tl.constexpr`, which annotates a number or wraps one."""

    def __call__(self, value: Any) -> Any:
        return value

    def __getitem__(self, _of: Any) -> Any:
        return self


class Language:
    """What a kernel calls `tl`."""

    constexpr, dtype, tensor = _Constexpr(), DType, Block
    PropagateNan = types.SimpleNamespace(ALL="all", NONE="none")

    def __init__(self) -> None:
        self.program = Program()
        for one in blocks.EVERY:
            setattr(self, one.name, one)
        self.uint1 = self.int1
        self.core = types.SimpleNamespace(get_int_dtype=self.get_int_dtype, _unwrap_if_constexpr=lambda value: value)
        self.extra = types.SimpleNamespace(libdevice=libdevice, cuda=types.SimpleNamespace(libdevice=libdevice))
        self.math = libdevice

    def __getattr__(self, name: str) -> Any:
        if (name in FUNCTIONS or name in MORE) and not name.startswith("__"):
            return getattr(libdevice, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unable("language", name)

    # the program and its blocks

    def program_id(self, axis: int) -> Block:
        return block(self.program.place[_value(axis)])

    def num_programs(self, axis: int) -> Block:
        return block(self.program.grid[_value(axis)])

    def arange(self, start: Any, end: Any) -> Block:
        return Block(torch.arange(_value(start), _value(end), dtype=torch.int32), int32)

    def full(self, shape: Any, value: Any, dtype: DType) -> Block:
        if isinstance(value, Block):
            return Block(torch.broadcast_to(cast(value, dtype).values, _shape(shape)), dtype)
        wide = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)
        return Block(torch.broadcast_to(cast(Block(wide), dtype).values, _shape(shape)), dtype)

    def zeros(self, shape: Any, dtype: DType) -> Block:
        return self.full(shape, 0, dtype)

    def zeros_like(self, value: Block) -> Block:
        return self.full(value.shape, 0, value.dtype)

    def cdiv(self, first: Any, second: Any) -> Any:
        return (first + second - 1) // second

    def range(self, *bounds: Any, **_how: Any) -> range:
        return range(*map(_value, bounds))

    static_range = range

    # memory

    def load(self, pointer: Any, mask: Any = None, other: Any = None, **_how: Any) -> Block:
        if not isinstance(pointer, Pointer):
            raise Unable("descriptor")
        mask = self._where(pointer, mask)
        self.program.loaded(pointer, mask)
        flat, offsets = pointer.memory.flat, pointer.offsets
        if mask is None:
            return Block(flat[offsets], pointer.dtype)
        instead = self._poison(pointer.dtype) if other is None else cast(other, pointer.dtype).values
        found = flat[torch.where(mask, offsets, torch.zeros_like(offsets))] if flat.numel() else instead
        return Block(torch.where(mask, found, instead), pointer.dtype)

    def _poison(self, dtype: DType) -> torch.Tensor:
        return torch.tensor(math.nan if dtype.is_floating() else 0, dtype=dtype.held)

    def _where(self, pointer: Pointer, mask: Any) -> torch.Tensor | None:
        """The mask in the shape of the addresses, which are those of the memory's."""
        if mask is not None:
            shape = torch.broadcast_shapes(pointer.offsets.shape, block(mask).values.shape)
            pointer.offsets = torch.broadcast_to(pointer.offsets, shape)
        where = _mask(mask, pointer.offsets.shape)
        asked = pointer.offsets if where is None else pointer.offsets[where]
        if asked.numel() and (int(asked.min()) < 0 or int(asked.max()) >= pointer.memory.flat.numel()):
            raise Unable("out_of_bounds")
        return where

    def store(self, pointer: Any, value: Any, mask: Any = None, **_how: Any) -> None:
        if not isinstance(pointer, Pointer):
            raise Unable("descriptor")
        stored = cast(value, pointer.dtype).values
        shape = torch.broadcast_shapes(pointer.offsets.shape, stored.shape)
        pointer = Pointer(pointer.memory, torch.broadcast_to(pointer.offsets, shape))
        mask = self._where(pointer, mask)
        self.program.stored(pointer, mask)
        stored = torch.broadcast_to(stored, pointer.offsets.shape)
        if mask is not None:
            pointer.memory.flat[pointer.offsets[mask]] = stored[mask]
        else:
            pointer.memory.flat[pointer.offsets] = stored

    def _atomic(self, combine: Callable, pointer: Pointer, value: Any, mask: Any) -> Block:
        given = cast(value, pointer.dtype).values
        shape = torch.broadcast_shapes(pointer.offsets.shape, given.shape)
        pointer = Pointer(pointer.memory, torch.broadcast_to(pointer.offsets, shape))
        where = self._where(pointer, mask)
        self.program.loaded(pointer, where)
        self.program.stored(pointer, where)
        keep = torch.ones(shape, dtype=torch.bool) if where is None else where
        places, given = pointer.offsets[keep], torch.broadcast_to(given, shape)[keep]
        before = torch.zeros(shape, dtype=pointer.memory.flat.dtype)
        before[keep] = pointer.memory.flat[places]
        combine(pointer.memory.flat, places, given)
        return Block(before, pointer.dtype)

    def atomic_add(self, pointer: Pointer, value: Any, mask: Any = None, **_how: Any) -> Block:
        return self._atomic(lambda flat, at, one: flat.index_add_(0, at, one), pointer, value, mask)

    def atomic_max(self, pointer: Pointer, value: Any, mask: Any = None, **_how: Any) -> Block:
        return self._atomic(lambda flat, at, one: flat.scatter_reduce_(0, at, one, "amax"), pointer, value, mask)

    def atomic_min(self, pointer: Pointer, value: Any, mask: Any = None, **_how: Any) -> Block:
        return self._atomic(lambda flat, at, one: flat.scatter_reduce_(0, at, one, "amin"), pointer, value, mask)

    def atomic_xchg(self, pointer: Pointer, value: Any, mask: Any = None, **_how: Any) -> Block:
        return self._atomic(lambda flat, at, one: flat.scatter_(0, at, one), pointer, value, mask)

    def make_tensor_descriptor(
        self, base: Pointer, shape: Any, strides: Any, block_shape: Any, padding_option: str = "zero", **_how: Any
    ) -> "Descriptor":
        if padding_option != "zero":
            raise Unable("descriptor", padding_option)
        self.program.makes_descriptor()
        return Descriptor(self, base, _shape(shape), _shape(strides), _shape(block_shape))

    def load_tensor_descriptor(self, descriptor: "Descriptor", offsets: Any, *_how: Any) -> Block:
        return descriptor.load(offsets)

    def store_tensor_descriptor(self, descriptor: "Descriptor", offsets: Any, value: Any, *_how: Any) -> None:
        descriptor.store(offsets, value)

    # shapes

    def broadcast_to(self, value: Any, *shape: Any) -> Block:
        wanted = _shape(shape[0] if len(shape) == 1 else shape)
        if isinstance(value, Pointer):
            return Pointer(value.memory, torch.broadcast_to(value.offsets, wanted))  # type: ignore[return-value]
        given = block(value)
        return Block(torch.broadcast_to(given.values, wanted), given.dtype)

    def broadcast(self, first: Block, second: Block) -> tuple[Block, Block]:
        made = torch.broadcast_tensors(first.values, second.values)
        return Block(made[0], first.dtype), Block(made[1], second.dtype)

    def reshape(self, value: Block, *shape: Any, **_how: Any) -> Block:
        return value.reshape(_shape(shape[0] if len(shape) == 1 else shape))

    view = reshape

    def expand_dims(self, value: Block, axis: int) -> Block:
        return Block(value.values.unsqueeze(axis), value.dtype)

    def trans(self, value: Block, *axes: Any) -> Block:
        order = _shape(axes[0] if len(axes) == 1 else axes) if axes else [*range(value.values.ndim - 2), -1, -2]
        return Block(value.values.permute(order), value.dtype)

    permute = trans

    def ravel(self, value: Block) -> Block:
        return value.ravel()

    def join(self, first: Block, second: Block) -> Block:
        one, other, dtype = blocks.together(first, second)
        return Block(torch.stack(torch.broadcast_tensors(one, other), -1), dtype)

    def split(self, value: Block) -> tuple[Block, Block]:
        return Block(value.values[..., 0], value.dtype), Block(value.values[..., 1], value.dtype)

    def flip(self, value: Block, dim: int | None = None) -> Block:
        return Block(value.values.flip(-1 if dim is None else dim), value.dtype)

    def to_tensor(self, value: Any) -> Block:
        return block(value)

    # what is computed place by place

    def where(self, condition: Any, first: Any, second: Any) -> Block:
        one, other, dtype = blocks.together(first, second)
        return Block(torch.where(cast(condition, int1).values, one, other), dtype)

    def cast(self, value: Any, dtype: DType, bitcast: bool = False, **_how: Any) -> Block:
        return cast(value, dtype, bitcast)

    def maximum(self, first: Any, second: Any, propagate_nan: Any = None, **_how: Any) -> Block:
        function = torch.maximum if propagate_nan == "all" else torch.fmax
        return blocks.arithmetic(function, first, second)

    def minimum(self, first: Any, second: Any, propagate_nan: Any = None, **_how: Any) -> Block:
        function = torch.minimum if propagate_nan == "all" else torch.fmin
        return blocks.arithmetic(function, first, second)

    def clamp(self, value: Any, low: Any, high: Any, **_how: Any) -> Block:
        return self.minimum(self.maximum(value, low), high)

    def sigmoid(self, value: Any) -> Block:
        return _pointwise(torch.sigmoid, value)

    def softmax(self, value: Block, dim: int | None = None, **_how: Any) -> Block:
        return Block(torch.softmax(value.values, value.values.ndim - 1 if dim is None else dim), value.dtype)

    def fdiv(self, first: Any, second: Any, **_how: Any) -> Block:
        return blocks.quotient(first, second)

    def rand(self, seed: Any, offset: Any, **_how: Any) -> Block:
        return Block(uniform(block(seed).values, block(offset).values), float32)

    def randn(self, seed: Any, offset: Any, **_how: Any) -> Block:
        return Block(normal(block(seed).values, block(offset).values), float32)

    def inline_asm_elementwise(self, asm: str, _constraints: str, args: list, dtype: DType, **how: Any) -> Block:
        match = re.fullmatch(r"\s*(\w+)(?:\.(?:rn|approx|full|ftz))*\.f32 \$0((?:, \$\d)+);\s*", asm)
        wanted = "".join(f", ${number + 1}" for number in range(len(args)))
        if match is None or match[2] != wanted or match[1] not in ASSEMBLY or how.get("pack", 1) != 1:
            raise Unable("language", asm)
        return cast(ASSEMBLY[match[1]](*args), dtype)

    # along an axis

    def reduce(self, value: Any, axis: int | None, combine_fn: Callable, keep_dims: bool = False) -> Any:
        several = isinstance(value, tuple)
        given = [block(one) for one in (value if several else (value,))]
        given = [*map(Block, torch.broadcast_tensors(*(one.values for one in given)), (one.dtype for one in given))]
        rank = given[0].values.ndim
        if axis is None:
            given = [Block(one.values.reshape(-1), one.dtype) for one in given]
        at = 0 if axis is None else axis
        parts = [one.values.movedim(at, 0) for one in given]
        dtypes = [one.dtype for one in given]
        while len(parts[0]) > 1:
            half = len(parts[0]) // 2
            made = self._combined(combine_fn, [one[:half] for one in parts], [one[half : 2 * half] for one in parts],
                                  dtypes)  # fmt: skip
            parts = [torch.cat([one, rest[2 * half :]]) for one, rest in zip(made, parts, strict=True)]
        made = [one[0] for one in parts]
        if keep_dims:
            made = [one.reshape([1] * rank) if axis is None else one.unsqueeze(at) for one in made]
        results = tuple(map(Block, made, dtypes))
        return results if several else results[0]

    def _combined(self, combine_fn: Callable, first: list, second: list, dtypes: list[DType]) -> list[torch.Tensor]:
        made = combine_fn(*map(Block, first, dtypes), *map(Block, second, dtypes))
        made = made if isinstance(made, tuple) else (made,)
        return [
            torch.broadcast_to(cast(one, dtype).values, like.shape)
            for one, dtype, like in zip(made, dtypes, first, strict=True)
        ]

    def associative_scan(self, value: Any, axis: int, combine_fn: Callable, reverse: bool = False) -> Any:
        several = isinstance(value, tuple)
        given = [block(one) for one in (value if several else (value,))]
        dtypes = [one.dtype for one in given]
        parts = [one.values.movedim(axis, 0) for one in given]
        parts = [one.flip(0) for one in parts] if reverse else parts
        step = 1
        while step < len(parts[0]):  # each place with what lies `step` before it
            made = self._combined(combine_fn, [one[:-step] for one in parts], [one[step:] for one in parts], dtypes)
            parts = [torch.cat([one[:step], new]) for one, new in zip(parts, made, strict=True)]
            step *= 2
        parts = [one.flip(0) for one in parts] if reverse else parts
        results = tuple(Block(one.movedim(0, axis), dtype) for one, dtype in zip(parts, dtypes, strict=True))
        return results if several else results[0]

    def _folded(self, function: Callable, value: Any, axis: int | None, keep_dims: bool) -> Block:
        given = block(value)
        if given.dtype.is_int() and given.dtype.primitive_bitwidth < 32:
            given = cast(given, int32)
        wide = given.dtype.is_floating() and given.dtype.primitive_bitwidth < 32
        values = given.values.float() if wide else given.values
        if axis is None:
            rank = values.ndim
            made = function(values.reshape(-1), 0)
            made = made.reshape([1] * rank) if keep_dims else made
        else:
            made = function(values, axis)
            made = made.unsqueeze(axis) if keep_dims else made
        return Block(blocks.wrapped(made.to(given.dtype.held), given.dtype), given.dtype)

    def sum(self, value: Any, axis: int | None = None, keep_dims: bool = False, dtype: DType | None = None) -> Block:
        value = value if dtype is None else cast(value, dtype)
        return self._folded(lambda one, at: one.sum(at), value, axis, keep_dims)

    def xor_sum(self, value: Any, axis: int | None = None, keep_dims: bool = False) -> Block:
        return self.reduce(value, axis, lambda one, other: one ^ other, keep_dims)

    def _extreme(self, value: Any, axis: int | None, indices: bool, keep_dims: bool, largest: bool) -> Any:
        function = torch.amax if largest else torch.amin
        found = self._folded(function, value, axis, keep_dims)
        if not indices:
            return found
        where = torch.argmax if largest else torch.argmin
        at = where(block(value).values, axis, keepdim=keep_dims)
        return found, Block(at.to(torch.int32), int32)

    def max(self, value: Any, axis: int | None = None, return_indices: bool = False,
            return_indices_tie_break_left: bool = True, keep_dims: bool = False) -> Any:  # fmt: skip
        return self._extreme(value, axis, return_indices, keep_dims, True)

    def min(self, value: Any, axis: int | None = None, return_indices: bool = False,
            return_indices_tie_break_left: bool = True, keep_dims: bool = False) -> Any:  # fmt: skip
        return self._extreme(value, axis, return_indices, keep_dims, False)

    def argmax(self, value: Any, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> Block:
        return self._extreme(value, axis, True, keep_dims, True)[1]

    def argmin(self, value: Any, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> Block:
        return self._extreme(value, axis, True, keep_dims, False)[1]

    def cumsum(self, value: Any, axis: int = 0, reverse: bool = False, **_how: Any) -> Block:
        return self.associative_scan(value, axis, lambda one, other: one + other, reverse)

    def cumprod(self, value: Any, axis: int = 0, reverse: bool = False, **_how: Any) -> Block:
        return self.associative_scan(value, axis, lambda one, other: one * other, reverse)

    def dot(self, first: Block, second: Block, acc: Any = None, out_dtype: DType = float32, **_how: Any) -> Block:
        wide = torch.float64 if first.dtype is blocks.float64 else torch.float32
        made = Block((first.values.to(wide) @ second.values.to(wide)).to(out_dtype.held), out_dtype)
        return made if acc is None else made + acc

    # what a compiler is told

    def device_assert(self, condition: Any, *_message: Any, mask: Any = None) -> None:
        if not bool(block(condition).values.all()):
            raise Unable("assert")

    def _nothing(self, *_arguments: Any, **_named: Any) -> None:
        pass

    debug_barrier = device_print = static_print = assume = static_assert = _nothing

    def max_contiguous(self, value: Any, *_told: Any) -> Any:
        return value

    multiple_of = max_constancy = max_contiguous

    def pointer_type(self, _element: DType, *_more: Any) -> None:
        """What a pointer is taken for where programs hand on what they have; one that covers all hands on nothing."""

    def get_int_dtype(self, bitwidth: int, signed: bool) -> DType:
        return getattr(self, f"{'int' if signed else 'uint'}{bitwidth}")


class Descriptor:
    """Memory in blocks: what of a block lies outside of the shape is 0 when it is loaded, and is not stored."""

    def __init__(self, language: Language, base: Pointer, shape: list[int], strides: list[int], block: list[int]):
        self.language, self.base, self.shape, self.strides, self.block = language, base, shape, strides, block

    @property
    def dtype(self) -> DType:
        return self.base.dtype

    block_shape = property(lambda self: self.block)

    def _places(self, offsets: Any) -> tuple[Pointer, Block]:
        places = self.base.offsets
        there = torch.ones([1] * len(self.block), dtype=torch.bool)
        for axis, (first, size, step, length) in enumerate(
            zip(offsets, self.shape, self.strides, self.block, strict=True)
        ):
            at = (torch.arange(length) + int(first)).reshape(
                [-1 if axis == one else 1 for one in range(len(self.block))]
            )
            places = places + at * step
            there = there & (at >= 0) & (at < size)
        return Pointer(self.base.memory, places), Block(there, int1)

    def load(self, offsets: Any) -> Block:
        pointer, there = self._places(offsets)
        return self.language.load(pointer, there, 0)

    def store(self, offsets: Any, value: Any) -> None:
        pointer, there = self._places(offsets)
        self.language.store(pointer, value, there)


OTHERWISE = {"nearbyint": "round", "rint": "round", "fabs": "abs", "fast_tanhf": "tanh", "cyl_bessel_i0": "i0",
             "llrint": "round", "finitef": "isfinite", "isfinited": "isfinite", "fast_expf": "exp",
             "fast_logf": "log", "mul_rn": "mul", "add_rn": "add", "sub_rn": "sub", "div_rn": "true_divide",
             "sqrt_rn": "sqrt", "max": "fmax", "min": "fmin", "fmod": "fmod"}  # fmt: skip
FUNCTIONS = {
    "exp", "exp2", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "floor", "ceil",
    "trunc", "abs", "pow", "atan2", "hypot", "copysign", "nextafter", "isnan", "isinf", "signbit", "i0", "fmax", "fmin",
    *OTHERWISE,
}  # fmt: skip
MORE = ("ilogb", "ldexp", "fma")
INTEGERS = ("isnan", "isinf", "signbit", "isfinited", "finitef")  # CUDA's functions give a number


def _pointwise(function: Callable, *operands: Any) -> Block:
    """A function of one float or of two, computed in float32 where a half is given, as CUDA's are."""
    given = [block(one) for one in operands]
    dtype = functools.reduce(blocks.promoted, (one.dtype for one in given if not _is_number(one, operands)))
    if not dtype.is_floating() and function not in (torch.abs, torch.fmax, torch.fmin):
        dtype = float32
    wide = torch.float32 if dtype.is_floating() and dtype.primitive_bitwidth < 32 else dtype.held
    return Block(function(*(cast(one, dtype).values.to(wide) for one in given)).to(dtype.held), dtype)


def _is_number(one: Block, operands: tuple) -> bool:
    return all(one is not given for given in operands) and any(isinstance(given, Block) for given in operands)


class Mathematics(types.ModuleType):
    """CUDA's mathematical functions, computed by PyTorch's of the same name."""

    def __getattr__(self, name: str) -> Callable:
        if name not in FUNCTIONS and name not in MORE:
            if name.startswith("__"):
                raise AttributeError(name)
            raise Unable("language", name)
        if name == "fma":
            return lambda first, second, third: _fused(first, second, third)
        if name == "ilogb":
            return lambda value: Block(torch.frexp(block(value).values).exponent - 1, int32)
        if name == "ldexp":
            return lambda value, power: _pointwise(torch.ldexp, value, power)
        function = getattr(torch, OTHERWISE.get(name, name))
        if name in INTEGERS:
            return lambda value: Block(function(block(value).values).to(torch.int32), int32)
        if name == "llrint":
            return lambda value: cast(_pointwise(function, value), int64)
        return lambda *operands: _pointwise(function, *operands)


def _fused(first: Any, second: Any, third: Any) -> Block:
    """A product and a sum that are rounded once."""
    dtype = functools.reduce(blocks.promoted, (block(one).dtype for one in (first, second, third)))
    wide = [cast(one, dtype).values.to(torch.float64) for one in (first, second, third)]
    return Block((wide[0] * wide[1] + wide[2]).to(dtype.held), dtype)


# instructions of PTX that Inductor writes; a GPU's own are off by a unit of the last place or two
ASSEMBLY: dict[str, Callable[..., Block]] = {
    "fma": _fused,
    "rcp": functools.partial(_pointwise, torch.reciprocal),
    "ex2": functools.partial(_pointwise, torch.exp2),
    "lg2": functools.partial(_pointwise, torch.log2),
    "tanh": functools.partial(_pointwise, torch.tanh),
    "div": blocks.quotient,
    "mul": functools.partial(blocks.arithmetic, torch.mul),
    "add": functools.partial(blocks.arithmetic, torch.add),
    "sub": functools.partial(blocks.arithmetic, torch.sub),
}
libdevice = Mathematics("libdevice")
tl = Language()


def jit(function: Any = None, **_how: Any) -> Any:
    """`triton.jit`, under which a function stays Python's."""
    return function if function is not None else jit


triton = types.SimpleNamespace(
    jit=jit, language=tl, cdiv=tl.cdiv, next_power_of_2=lambda value: 1 << (int(value) - 1).bit_length()
)


def converted(value: Any, *how: Any, **named: Any) -> Any:
    """`.to` of a block, or of a number that the kernel is given."""
    return (block(value) if isinstance(value, bool | int | float) else value).to(*how, **named)


def negated(value: Any) -> Any:
    """`not` of a block is one of each of its places."""
    return Block(~cast(value, int1).values, int1) if isinstance(value, Block) else not value


def _sorted(x: Block, index: Block, rnumel: Any, dim: Any = None, stable: bool = False, descending: bool = False):
    """`sort_with_index`: places that are not there come last."""
    values, places = torch.broadcast_tensors(x.values, index.values)
    there = torch.ones_like(places, dtype=torch.bool) if rnumel is None else places < _value(rnumel)
    order = torch.sort(values, dim=-1, stable=True, descending=descending).indices
    kept = torch.sort(~torch.gather(there, -1, order), dim=-1, stable=True).indices
    order = torch.gather(order, -1, kept)
    return Block(torch.gather(values, -1, order), x.dtype), Block(torch.gather(places, -1, order), index.dtype)


def _no_others(_scratch: Any, value: Block, *_more: Any, **_how: Any) -> Block:
    """What programs before this one hand on, where this one covers all."""
    if any(tl.program.place):
        raise Unable("several_programs")
    return Block(torch.zeros([], dtype=value.dtype.held), value.dtype)


def _barrier(_semaphore: Any) -> None:
    if tl.program.grid[0] > 1:
        raise Unable("several_programs")


def _random_integers(seed: Any, offset: Any, low: Any, high: Any) -> Block:
    return Block(integers(block(seed).values, block(offset).values, _value(low), _value(high)), int64)


def _uniform_blocks(seed: Any, offsets: Any, *_block: Any) -> Block:
    return tl.rand(seed, offsets)


OURS: dict[str, Any] = {
    "sort_with_index": _sorted,
    "exclusive_scan_decoupled_lookback": _no_others,
    "exclusive_scan_decoupled_lookback_64": _no_others,
    "x_grid_barrier": _barrier,
    "randint64": _random_integers,
    "rand4x": _uniform_blocks,
    "randn4x": lambda seed, offsets, *_block: tl.randn(seed, offsets),
    "promote_to_tensor": block,
    "if_mask": lambda mask, value, **_how: None if mask is None else value,
}


class Plain(ast.NodeTransformer):
    """A kernel's text as Python runs it: `not` goes place by place, numbers are cast as blocks are.

    No decorator and no annotation is evaluated.
    """

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "to":
            return node
        called = ast.Call(ast.Name("__to__", ast.Load()), [node.func.value, *node.args], node.keywords)
        return ast.copy_location(ast.fix_missing_locations(called), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        called = ast.Call(ast.Name("__negated__", ast.Load()), [node.operand], [])
        return ast.copy_location(ast.fix_missing_locations(called), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.decorator_list, node.returns = [], None
        arguments = node.args
        for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            one.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        made = ast.Assign([node.target], node.value)
        return ast.copy_location(made, node)


@functools.cache
def helpers() -> types.ModuleType:
    """`torch._inductor.runtime.triton_helpers`, over this language."""
    source = Path(owner("set_driver").__file__).read_text()
    kept = [one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef | ast.Assign | ast.AnnAssign)]
    module = types.ModuleType("triton_helpers")
    space = vars(module)
    space |= {"tl": tl, "triton": triton, "math": libdevice, "libdevice": libdevice, "pymath": math}
    space |= {"__negated__": negated, "__to__": converted, "_log2": lambda value: int(value).bit_length() - 1}
    for one in kept:
        tree = ast.fix_missing_locations(ast.Module([Plain().visit(one)], []))
        try:
            exec(compile(tree, "<triton_helpers>", "exec"), space)
        except (NameError, Unable):  # what the kernels do not call
            continue
    space |= {**OURS, "libdevice": libdevice, "math": libdevice}
    return module


__all__ = [
    "Language",
    "Memory",
    "Plain",
    "Pointer",
    "Program",
    "converted",
    "helpers",
    "jit",
    "libdevice",
    "negated",
    "tl",
    "triton",
]
