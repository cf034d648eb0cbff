"""Index expressions of a loop nest, worked out over all of its iterations at once.

A set of indices stands in the place of a value, and an index that comes out of memory is not known.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy
import sympy

from minicompile.watching.traffic.grids import MOST, grid


class Unknown:
    """A value that depends on what is in memory."""

    def __getitem__(self, _index: Any) -> "Unknown":
        return self


UNKNOWN = Unknown()


class Indices:
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
        groups = self.groups(sympy.Add.make_args(sympy.expand(index)))
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
            apart = distinct(numpy.diff(found))
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
        return distinct(together) + offset

    def groups(self, terms: tuple[sympy.Expr, ...]) -> list[tuple[set[int], list, list]] | None:
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
