"""What the operations of an Inductor loop body reach: which elements of which buffers, as far as that can be known.

A loop body is run over all of its iterations at once, with sets of indices in the place of values: an index of the
loop's variables is known exactly, and so is what is computed from such indices alone (the mask of a padding, the
source row of an interpolation). An index that comes out of memory is not known; then the count is a bound.
"""

import operator
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import sympy

from minicompile.torch_private.names import owner
from minicompile.watching.traffic.loop_indices import UNKNOWN, Indices, computed


@dataclass(frozen=True)
class Access:
    """The elements of one buffer that an operation of a loop body reaches.

    `elements` is a sorted array of offsets, or a grid (offset, ((stride, length), ...)) none of whose points coincide,
    or None where it is not known; then `most` is how many they can be.
    """

    buffer: str
    reads: bool
    writes: bool
    elements: Any
    most: int

    @property
    def exact(self) -> bool:
        return self.elements is not None


# operations of a loop body whose result is known where all of their operands are
COMPUTED: dict[str, Callable] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "neg", "and_", "or_", "xor")},
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    "floordiv": operator.floordiv,
    "truncdiv": lambda left, right: numpy.trunc(left / right).astype(int),
    "mod": numpy.fmod,
    "remainder": operator.mod,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_not": numpy.invert,
    "logical_and": numpy.logical_and,
    "logical_or": numpy.logical_or,
    "logical_not": numpy.logical_not,
    "minimum": numpy.minimum,
    "maximum": numpy.maximum,
    "where": numpy.where,
    "floor": numpy.floor,
    "ceil": numpy.ceil,
    "trunc": numpy.trunc,
    "abs": numpy.abs,
    "floor_to_int": lambda value, _dtype: numpy.floor(value).astype(int),
    "ceil_to_int": lambda value, _dtype: numpy.ceil(value).astype(int),
    "trunc_to_int": lambda value, _dtype: numpy.trunc(value).astype(int),
    "identity": lambda value: value,
}


def answering(indices: Indices, found: dict[tuple[str, int], list[Access]]) -> Any:
    """What the operations of a loop body are run with: a class that has an answer to each of them."""
    virtual = owner("V").V

    base: Any = owner("ops_handler").DefaultHandler

    class Handler(base):
        def _default(self, name: str, args: tuple, kwargs: dict) -> Any:
            values = (*args, *kwargs.values())
            return computed(COMPUTED[name], *values) if name in COMPUTED else UNKNOWN

        def constant(self, value, dtype):
            return numpy.asarray(value)

        def index_expr(self, expression, dtype):
            return self.to_dtype(indices.values(sympy.sympify(expression)), dtype)

        value_expr = index_expr

        def to_dtype(self, value, dtype, src_dtype=None, use_compute_types=True):
            if value is UNKNOWN or dtype.is_complex:
                return UNKNOWN
            return value.astype(str(dtype).removeprefix("torch.").replace("bfloat16", "float32"))

        def load(self, name, index):
            return self._touch(name, index, reads=True)

        def load_seed(self, name, offset):
            return self._touch(name, sympy.sympify(offset), reads=True)

        def store(self, name, index, value, mode=None):
            self._touch(name, index, reads=mode is not None, writes=True)

        def store_reduction(self, name, index, value):
            self._touch(name, index, writes=True)

        def bucketize(self, values, boundaries, places, dtype, right, sorter=None, sorter_places=None):
            every = max(int(indices.hint(size)) for size in boundaries[1:3])  # of a row, and of all rows together
            for name, *_ in filter(None, (boundaries, sorter)):
                self._record(name, None, every, reads=True)
            return UNKNOWN

        def masked(self, mask, body, other):
            indices.masks.append(UNKNOWN if mask is UNKNOWN else numpy.asarray(mask))
            try:
                body()
            finally:
                indices.masks.pop()
            return UNKNOWN

        def indirect_indexing(self, index, size, check=True, wrap_neg=True):
            symbol = sympy.Symbol(f"indirect_{len(indices.known)}_of_{id(indices)}", integer=True)
            if index is not UNKNOWN and wrap_neg:
                index = numpy.where(index < 0, index + indices.hint(sympy.sympify(size)), index)
            indices.known[symbol] = index
            return symbol

        def _touch(self, name, index, *, reads=False, writes=False):
            elements = indices.reached(sympy.sympify(index))
            self._record(name, elements, indices.points, reads=reads, writes=writes)
            return UNKNOWN

        def _record(self, name, elements, most, *, reads=False, writes=False):
            node = virtual.interpreter.current_node
            found[node.name, id(node.graph)].append(Access(name, reads, writes, elements, most))

    return Handler


def accesses(body: Any, hint: Callable[[Any], int]) -> dict[tuple[str, int], list[Access]] | None:
    """What each operation of a loop body touches, by its name and its graph's id; None where that cannot be told.

    Args:
        body: an Inductor `LoopBody`.
        hint: the number that a symbolic size has for the example inputs.
    """
    return over(body, [(0, size) for sizes in body.sizes for size in sizes], hint, answering)


def over(body: Any, ranges: list[tuple[Any, Any]], hint: Callable[[Any], int], answers: Callable) -> dict | None:
    """`accesses` of a part of the loops.

    Args:
        ranges: where each of the loops begins and ends.
        answers: `answering`, or a function that gives a class derived from its.
    """
    try:
        known = [(hint(begin), hint(end)) for begin, end in ranges]
        variables = [sympy.Symbol(f"loop_{n}", integer=True, nonnegative=True) for n in range(len(known))]
        indices = Indices([(one, end - begin) for one, (begin, end) in zip(variables, known, strict=True)], hint)
        places = iter([one + begin for one, (begin, _) in zip(variables, known, strict=True)])
        found: dict[tuple[str, int], list[Access]] = defaultdict(list)
        with owner("V").V.set_ops_handler(answers(indices, found)()):
            body(*([next(places) for _ in sizes] for sizes in body.sizes))
    except (TypeError, ValueError, AttributeError, NotImplementedError, KeyError, OverflowError):
        return None
    return dict(found)
