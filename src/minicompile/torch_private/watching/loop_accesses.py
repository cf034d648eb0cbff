"""What the operations of an Inductor loop body reach: which elements of which buffers, as far as that can be known.

A loop body is run over all of its iterations at once, with sets of indices in the place of values: an index of the
loop's variables is known exactly, and so is what is computed from such indices alone (the mask of a padding, the
source row of an interpolation). An index that comes out of memory is not known; then the count is a bound.
"""

import functools
import math
import operator
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import sympy

from minicompile.torch_private.names import owner
from minicompile.torch_private.watching.grids import MOST, grid


class Unknown:
    """A value that depends on what is in memory."""

    def __getitem__(self, _index: Any) -> "Unknown":
        return self


UNKNOWN = Unknown()


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


class _Indices:
    """Evaluates index expressions over the whole of a loop nest, each variable along an axis of its own."""

    def __init__(self, variables: list[tuple[sympy.Symbol, int]], hint: Callable[[Any], int]) -> None:
        self.variables, self.hint = dict(variables), hint
        self._axis = {variable: axis for axis, (variable, _) in enumerate(variables)}
        self.known: dict[sympy.Symbol, Any] = {}  # what indirect indexing put there
        self.masks: list[Any] = []

    @property
    def points(self) -> int:
        return math.prod(self.variables.values())

    def reached(self, index: sympy.Expr) -> Any:
        """The different offsets that an index reaches at the points that no mask takes out; None where not known.

        Terms that share no variable, and no mask, are worked out apart: the rows of a padded image and its columns.
        """
        if self.points <= 0:
            return numpy.zeros(0, int)
        groups = self._groups(sympy.Add.make_args(sympy.expand(index)))
        if groups is None:
            return None
        offset, steps, irregular = 0, list[tuple[int, int]](), []
        for axes, terms, masks in groups:
            if (step := self._step(axes, terms)) is not None and not masks:
                steps.append((step, self._length(axes)))
                continue
            if (values := self.values(sympy.Add(*terms))) is UNKNOWN or self._length(axes) > MOST:
                return None
            found = _where(values, masks)
            apart = numpy.unique(numpy.diff(found))
            if len(found) and len(apart) <= 1:
                offset += int(found[0])
                steps.append((int(apart[0]) if len(apart) else 0, len(found)))
            else:
                irregular.append(found)
        steps = [(step, length) for step, length in steps if length > 1]
        plain = grid(offset, steps)
        if plain is not None and not irregular:
            return plain
        laid = [step * numpy.arange(length) for step, length in steps if step]
        if math.prod(map(len, [*irregular, *laid])) > MOST:
            return None
        together = functools.reduce(lambda left, right: numpy.add.outer(left, right).ravel(), [*irregular, *laid])
        return numpy.unique(together) + offset

    def _groups(self, terms: tuple[sympy.Expr, ...]) -> list[tuple[set[int], list, list]] | None:
        """(axes, terms, masks) of parts that share no axis; None where one depends on what is in memory."""
        groups: list[tuple[set[int], list, list]] = []
        for term, mask in [*((term, None) for term in terms), *((None, mask) for mask in self.masks)]:
            axes = self._axes(term) if mask is None else _long(mask)
            if axes is None:
                return None
            touching = [group for group in groups if group[0] & axes or (not axes and not group[0])]
            groups = [group for group in groups if group not in touching]
            groups.append((
                axes.union(*(group[0] for group in touching)),
                [one for group in touching for one in group[1]] + ([] if term is None else [term]),
                [one for group in touching for one in group[2]] + ([] if mask is None else [mask]),
            ))  # fmt: skip
        return groups

    def _axes(self, term: sympy.Expr) -> set[int] | None:
        found = {self._axis[one] for one in term.free_symbols & self.variables.keys()}
        for one in term.free_symbols & self.known.keys():
            if (axes := _long(self.known[one])) is None:
                return None
            found |= axes
        return found

    def _length(self, axes: set[int]) -> int:
        lengths = list(self.variables.values())
        return math.prod(lengths[axis] for axis in axes)

    def _step(self, axes: set[int], terms: list[sympy.Expr]) -> int | None:
        """The stride of terms that are one variable times a size, which may be a symbol."""
        if len(axes) != 1:
            return None
        variable = next(one for one, axis in self._axis.items() if axis in axes)
        factor = sympy.expand(sympy.Add(*terms) / variable)
        if factor.free_symbols & (self.variables.keys() | self.known.keys()) or not terms:
            return None
        try:
            return self.hint(factor)
        except (TypeError, ValueError):
            return None

    def values(self, expression: Any) -> Any:
        """The expression at every point, as an array that broadcasts over the loop nest; UNKNOWN where it is not."""
        if isinstance(expression, int | float):
            return numpy.asarray(expression)
        if expression.is_Number:
            return numpy.asarray(int(expression) if expression.is_Integer else float(expression))
        if expression.is_Symbol:
            if expression in self.variables:
                return self._along(expression)
            return self.known[expression] if expression in self.known else numpy.asarray(self.hint(expression))
        function = FUNCTIONS.get(type(expression).__name__)
        return computed(function, *map(self.values, expression.args)) if function else UNKNOWN

    def _along(self, variable: sympy.Symbol) -> Any:
        shape = [1] * len(self.variables)
        shape[self._axis[variable]] = self.variables[variable]
        return numpy.arange(self.variables[variable]).reshape(shape)


def computed(function: Callable, *values: Any) -> Any:
    """What a function makes of arrays; UNKNOWN where one of them is, or where they are too large together."""
    if any(value is UNKNOWN for value in values):
        return UNKNOWN
    shapes = [value.shape for value in values if isinstance(value, numpy.ndarray)]
    return function(*values) if math.prod(numpy.broadcast_shapes(*shapes)) <= MOST else UNKNOWN


def _long(values: Any) -> set[int] | None:
    """The axes along which an array has more than one value; None where it is not known."""
    return None if values is UNKNOWN else {axis for axis, length in enumerate(values.shape) if length > 1}


def _where(values: Any, masks: list[Any]) -> Any:
    """The different values at the points that no mask takes out, sorted."""
    mask = functools.reduce(operator.and_, masks, numpy.asarray(True))
    shape = numpy.broadcast_shapes(values.shape, mask.shape)
    return distinct(numpy.broadcast_to(values, shape)[numpy.broadcast_to(mask, shape)])


def distinct(values: numpy.ndarray) -> numpy.ndarray:
    """The different values of a one-dimensional array, sorted.

    `numpy.unique` hashes them, which takes a hundred times as long for the addresses of a loop: most come in order.
    """
    if (values[1:] < values[:-1]).any():
        values = numpy.sort(values)
    first = numpy.ones(values.shape, bool)
    first[1:] = values[1:] != values[:-1]
    return values[first]


def _modular(value, divisor, modulus):
    return value // divisor % modulus


FUNCTIONS: dict[str, Callable] = {
    "Add": lambda *values: functools.reduce(operator.add, values),
    "Mul": lambda *values: functools.reduce(operator.mul, values),
    "Max": lambda *values: functools.reduce(numpy.maximum, values),
    "Min": lambda *values: functools.reduce(numpy.minimum, values),
    "Pow": lambda base, exponent: base**exponent,
    "FloorDiv": lambda value, divisor: value // divisor,
    "CleanDiv": lambda value, divisor: value // divisor,
    "CeilDiv": lambda value, divisor: -(-value // divisor),
    "ModularIndexing": _modular,
    "Mod": lambda value, modulus: value % modulus,
    "PythonMod": lambda value, modulus: value % modulus,
    "Identity": lambda value: value,
}
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


def _handler(indices: _Indices, found: dict[tuple[str, int], list[Access]]) -> Any:
    """What the operations of a loop body are run with: an answer to each of them."""
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

    return Handler()


def accesses(body: Any, hint: Callable[[Any], int]) -> dict[tuple[str, int], list[Access]] | None:
    """What each operation of a loop body touches, by its name and its graph's id; None where that cannot be told.

    Args:
        body: an Inductor `LoopBody`.
        hint: the number that a symbolic size has for the example inputs.
    """
    groups = [[sympy.Symbol(f"loop{depth}_{n}", integer=True, nonnegative=True) for n in range(len(sizes))]
              for depth, sizes in enumerate(body.sizes)]  # fmt: skip
    try:
        loops = [
            loop for names, sizes in zip(groups, body.sizes, strict=True) for loop in zip(names, sizes, strict=True)
        ]
        sizes = [(variable, hint(size)) for variable, size in loops]
        found: dict[tuple[str, int], list[Access]] = defaultdict(list)
        with owner("V").V.set_ops_handler(_handler(_Indices(sizes, hint), found)):
            body(*groups)
    except (TypeError, ValueError, AttributeError, NotImplementedError, KeyError, OverflowError):
        return None
    return dict(found)
