"""Triton's blocks and pointers, held in PyTorch's tensors: each operation in the dtype, and rounded, as a GPU does it.

Triton's own interpreter adds bfloat16 as bit patterns and cuts where a GPU rounds, so it is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch


class Unable(Exception):
    """What a kernel does cannot be evaluated here: a refusal's code, and what it was."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code, self.detail = code, detail


@dataclass(frozen=True)
class DType:
    """A dtype of Triton's, and the one of PyTorch's that holds its values."""

    name: str
    held: torch.dtype
    primitive_bitwidth: int
    kind: str  # bool, int, uint, float

    def is_floating(self) -> bool:
        return self.kind == "float"

    def is_int(self) -> bool:
        return self.kind != "float"

    def is_int_unsigned(self) -> bool:
        return self.kind == "uint"

    @property
    def scalar(self) -> DType:
        return self

    @property
    def element_ty(self) -> DType:
        return self

    def __call__(self, value: Any) -> Block:
        return cast(value, self)


int1 = DType("int1", torch.bool, 1, "bool")
int8, int16 = DType("int8", torch.int8, 8, "int"), DType("int16", torch.int16, 16, "int")
int32, int64 = DType("int32", torch.int32, 32, "int"), DType("int64", torch.int64, 64, "int")
uint8 = DType("uint8", torch.uint8, 8, "uint")
# PyTorch computes nothing in these: they are held in numbers that are wide enough, or of as many bits
uint16, uint32 = DType("uint16", torch.int64, 16, "uint"), DType("uint32", torch.int64, 32, "uint")
uint64 = DType("uint64", torch.int64, 64, "uint")
float16, bfloat16 = DType("float16", torch.float16, 16, "float"), DType("bfloat16", torch.bfloat16, 16, "float")
float32, float64 = DType("float32", torch.float32, 32, "float"), DType("float64", torch.float64, 64, "float")
float8e4nv = DType("float8e4nv", torch.float8_e4m3fn, 8, "float")
float8e5 = DType("float8e5", torch.float8_e5m2, 8, "float")
WHOLE = (int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
EVERY = (*WHOLE, float16, bfloat16, float32, float64, float8e4nv, float8e5)
OF_TENSOR = {one.held: one for one in EVERY if one not in (uint16, uint32, uint64)}
OF_TENSOR |= {torch.uint16: uint16, torch.uint32: uint32, torch.uint64: uint64}


def wrapped(values: torch.Tensor, dtype: DType) -> torch.Tensor:
    """Integers that are held in wider ones, modulo what their own dtype holds."""
    if dtype in (uint16, uint32):
        return values & ((1 << dtype.primitive_bitwidth) - 1)
    return values


def scalar_dtype(value: bool | int | float) -> DType:
    """Triton's for a number in the program."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        return int32 if -(1 << 31) <= value < 1 << 31 else int64
    return float32


def block(value: Any) -> Block:
    """A block of whatever an operation is given."""
    if isinstance(value, Block):
        return value
    if isinstance(value, bool | int | float):
        dtype = scalar_dtype(value)
        return Block(torch.tensor(value, dtype=dtype.held), dtype)
    raise Unable("language")


def cast(value: Any, dtype: DType, bitcast: bool = False) -> Block:
    """A value in another dtype; its bits as they are for a bit cast."""
    given = block(value)
    if dtype is given.dtype:
        return given
    values = given.values
    if bitcast:
        if dtype in (uint32, uint64) or given.dtype in (uint32, uint64):
            return Block(_bits(given, dtype), dtype)
        return Block(values.contiguous().view(dtype.held), dtype)
    if dtype is int1:
        return Block(values != 0, int1)
    if given.dtype.is_floating() and not dtype.is_floating():
        values = values.to(torch.float64).trunc()
        limit = 1 << (dtype.primitive_bitwidth - (dtype.kind == "int"))
        outside = ~(values.abs() < limit)
        values = torch.where(outside, torch.zeros_like(values), values).to(torch.int64)
        return Block(wrapped(values, dtype).to(dtype.held), dtype)
    return Block(wrapped(values.to(dtype.held), dtype), dtype)


def _bits(given: Block, dtype: DType) -> torch.Tensor:
    same = {32: torch.int32, 64: torch.int64}[dtype.primitive_bitwidth]
    values = given.values
    whole = values.to(same) if given.dtype is uint32 else values.contiguous().view(same)
    return wrapped(whole.to(torch.int64), dtype) if dtype in (uint32, uint64) else whole.contiguous().view(dtype.held)


RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def promoted(first: DType, second: DType) -> DType:
    """What two blocks are computed in."""
    if first is second:
        return first
    if RANK[first.kind] != RANK[second.kind]:
        return first if RANK[first.kind] > RANK[second.kind] else second
    if first.kind == "float":
        if first.primitive_bitwidth == second.primitive_bitwidth:
            return float32 if first.primitive_bitwidth == 16 else float16
        return first if first.primitive_bitwidth > second.primitive_bitwidth else second
    if first.primitive_bitwidth == second.primitive_bitwidth:
        return first if first.kind == "uint" else second
    return first if first.primitive_bitwidth > second.primitive_bitwidth else second


def together(first: Any, second: Any) -> tuple[torch.Tensor, torch.Tensor, DType]:
    """Two operands in the dtype that an operation on both computes in; a number takes a block's."""
    number_first, number_second = not isinstance(first, Block), not isinstance(second, Block)
    one, other = block(first), block(second)
    if number_first != number_second:
        number, given = (one, other) if number_first else (other, one)
        dtype = given.dtype if RANK[number.dtype.kind] <= RANK[given.dtype.kind] else number.dtype
        if given.dtype is int1 and number.dtype.kind == "int":
            dtype = int32
        if dtype is given.dtype and dtype.kind in ("int", "uint") and number.dtype is int64:
            dtype = int64 if dtype.primitive_bitwidth < 64 and dtype is not uint32 else dtype
        raw = first if number_first else second
        scalar = torch.tensor(raw, dtype=torch.float64 if dtype.is_floating() else torch.int64)
        values = wrapped(scalar.to(dtype.held), dtype)
        held = cast(given, dtype).values
        return (values, held, dtype) if number_first else (held, values, dtype)
    dtype = promoted(one.dtype, other.dtype)
    return cast(one, dtype).values, cast(other, dtype).values, dtype


def _widened(function: Callable, dtype: DType, *values: torch.Tensor) -> torch.Tensor:
    """Computed in float32 and rounded once, which for 16 bits is what a GPU's own instruction gives."""
    if dtype.is_floating() and dtype.primitive_bitwidth < 32:
        return function(*(one.to(torch.float32) for one in values)).to(dtype.held)
    return function(*values)


def arithmetic(function: Callable, first: Any, second: Any) -> Block:
    one, other, dtype = together(first, second)
    if dtype is int1:
        one, other, dtype = one.to(torch.int8), other.to(torch.int8), int8
    return Block(wrapped(_widened(function, dtype, one, other), dtype), dtype)


def _compared(function: Callable, first: Any, second: Any) -> Block:
    one, other, _ = together(first, second)
    return Block(function(one, other), int1)


def _bitwise(function: Callable, first: Any, second: Any) -> Block:
    one, other, dtype = together(first, second)
    return Block(wrapped(function(one, other), dtype), dtype)


def quotient(first: Any, second: Any) -> Block:
    one, other, dtype = together(first, second)
    if not dtype.is_floating():
        one, other, dtype = one.to(torch.float32), other.to(torch.float32), float32
    return Block(_widened(torch.true_divide, dtype, one, other), dtype)


def cut_quotient(first: Any, second: Any) -> Block:
    one, other, dtype = together(first, second)
    if dtype.is_floating():
        return Block(_widened(torch.div, dtype, one, other).floor(), dtype)
    safe = torch.where(other == 0, torch.ones_like(other), other)  # of lanes that are masked
    return Block(torch.div(one, safe, rounding_mode="trunc"), dtype)


def remainder(first: Any, second: Any) -> Block:
    one, other, dtype = together(first, second)
    if dtype.is_floating():
        return Block(_widened(torch.fmod, dtype, one, other), dtype)
    safe = torch.where(other == 0, torch.ones_like(other), other)
    return Block(torch.fmod(one, safe), dtype)


@dataclass(frozen=True)
class Type:
    """What `.type` of a block tells."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def scalar(self) -> DType:
        return self.dtype

    element_ty = scalar

    def is_block(self) -> bool:
        return bool(self.shape)


class Block:
    """A value of a kernel's: a number for each place of the block."""

    __slots__ = ("dtype", "values")

    def __init__(self, values: torch.Tensor, dtype: DType | None = None) -> None:
        self.values = values
        self.dtype = dtype or OF_TENSOR[values.dtype]

    shape = property(lambda self: list(self.values.shape))
    type = property(lambda self: Type(self.dtype, tuple(self.values.shape)))
    numel = property(lambda self: self.values.numel())
    T = property(lambda self: Block(self.values.transpose(-1, -2), self.dtype))

    def to(self, dtype: DType, bitcast: bool = False, fp_downcast_rounding: str | None = None) -> Block:
        if fp_downcast_rounding not in (None, "rtne"):
            raise Unable("language")
        return cast(self, dtype, bitcast)

    cast = to

    def __getitem__(self, index: Any) -> Block:
        return Block(self.values[index], self.dtype)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __index__(self) -> int:
        return int(self.values)

    __int__ = __index__

    def __neg__(self) -> Block:
        return Block(wrapped(-self.values, self.dtype), self.dtype)

    def __invert__(self) -> Block:
        return Block(wrapped(~self.values, self.dtype), self.dtype)

    def __hash__(self) -> int:
        return id(self)

    def logical_and(self, other: Any) -> Block:
        return _bitwise(torch.bitwise_and, cast(self, int1), cast(other, int1))

    def logical_or(self, other: Any) -> Block:
        return _bitwise(torch.bitwise_or, cast(self, int1), cast(other, int1))

    def reshape(self, *shape: Any) -> Block:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        return Block(self.values.reshape([int(one) for one in wanted]), self.dtype)

    view = reshape

    def broadcast_to(self, *shape: Any) -> Block:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        return Block(torch.broadcast_to(self.values, [int(one) for one in wanted]), self.dtype)

    def ravel(self) -> Block:
        return Block(self.values.reshape(-1), self.dtype)


def _operator(name: str, function: Callable[[Any, Any], Any], reflected: bool = True) -> None:
    def forward(self, other):
        return other.__radd__(self) if isinstance(other, Pointer) and name == "add" else function(self, other)

    setattr(Block, f"__{name}__", forward)
    if reflected:
        setattr(Block, f"__r{name}__", lambda self, other: function(other, self))


ARITHMETIC: dict[str, Callable] = {"add": torch.add, "sub": torch.sub, "mul": torch.mul}
BITWISE: dict[str, Callable] = {
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor,
    "lshift": torch.bitwise_left_shift, "rshift": torch.bitwise_right_shift,
}  # fmt: skip
COMPARED: dict[str, Callable] = {
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq": torch.eq,
    "ne": torch.ne,
}
for _name, _function in ARITHMETIC.items():
    _operator(_name, partial(arithmetic, _function))
for _name, _function in BITWISE.items():
    _operator(_name, partial(_bitwise, _function))
for _name, _function in COMPARED.items():
    _operator(_name, partial(_compared, _function), reflected=False)
_operator("truediv", quotient)
_operator("floordiv", cut_quotient)
_operator("mod", remainder)


@dataclass(frozen=True)
class Memory:
    """The whole storage that a tensor is of, as numbers of its dtype."""

    flat: torch.Tensor
    argument: str  # the kernel's name for the pointer
    tensor: torch.Tensor


class Pointer:
    """Addresses: places in a memory, in elements."""

    __slots__ = ("memory", "offsets")

    def __init__(self, memory: Memory, offsets: torch.Tensor) -> None:
        self.memory, self.offsets = memory, offsets

    @property
    def dtype(self) -> DType:
        return OF_TENSOR[self.memory.flat.dtype]

    @property
    def type(self) -> Type:
        return Type(self.dtype, tuple(self.offsets.shape))

    shape = property(lambda self: list(self.offsets.shape))

    def __add__(self, other: Any) -> Pointer:
        moved = block(other).values.to(torch.int64)
        return Pointer(self.memory, self.offsets + moved)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Pointer:
        return Pointer(self.memory, self.offsets - block(other).values.to(torch.int64))

    def __getitem__(self, index: Any) -> Pointer:
        return Pointer(self.memory, self.offsets[index])

    def to(self, dtype: Any, bitcast: bool = False) -> Pointer:
        if dtype is not None:
            raise Unable("language", "a pointer's cast")
        return self


def pointer_to(tensor: torch.Tensor, argument: str) -> Pointer:
    """A kernel's argument that is a tensor."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    flat = tensor.detach().as_strided((size,), (1,), 0)
    return Pointer(Memory(flat, argument, tensor), torch.tensor(tensor.storage_offset(), dtype=torch.int64))
