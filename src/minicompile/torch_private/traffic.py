"""How many bytes of memory each kernel call touches: the addresses that its loads and stores reach, each once.

A loop body is run over all of its iterations at once, with sets of indices in the place of values: an index of the
loop's variables is known exactly, and so is what is computed from such indices alone (the mask of a padding, the
source row of an interpolation). An index that comes out of memory is not known; then the count is a bound. Only
operations that have a line in the kernel's text are counted, since a value that is still in a register is not loaded.
"""

import functools
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy
import sympy

from minicompile.torch_private.names import owner

MOST = 1 << 22  # indices that are written out one by one; a larger set that is not a plain grid is bounded instead
READS, WRITES = ("load", "load_seed"), ("store", "store_reduction")


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


class LoopTooLarge(Exception):
    """Writing out the indices would take too long."""


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

    def grid(self, expression: sympy.Expr) -> tuple | None:
        """The index as a grid of distinct offsets, where it is one and nothing masks it."""
        if self.masks or self.points <= 0:
            return None
        expression = sympy.expand(expression)
        steps: dict[sympy.Symbol, int] = defaultdict(int)
        for term, factor in expression.as_coefficients_dict().items():
            if term == 1 or not term.free_symbols:
                continue
            if term not in self.variables or not factor.is_Integer:
                if not (replaced := self._linear(term * factor)):
                    return None
                term, factor = replaced
            steps[term] += int(factor)
        constant = expression.subs(dict.fromkeys(expression.free_symbols & self.variables.keys(), 0))
        try:
            offset = self.hint(constant)
        except (TypeError, ValueError):
            return None
        walked = [(step, self.variables[term]) for term, step in steps.items() if self.variables[term] > 1]
        return _grid(offset, walked)

    def _linear(self, term: sympy.Expr) -> tuple[sympy.Symbol, sympy.Integer] | None:
        """(variable, factor) of a term whose factor is a symbolic size."""
        variables = term.free_symbols & self.variables.keys()
        if len(variables) != 1:
            return None
        (variable,) = variables
        rest = term / variable
        if rest.free_symbols & self.variables.keys():
            return None
        try:
            return variable, sympy.Integer(self.hint(rest))
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
        found = [self.values(argument) for argument in expression.args]
        if any(value is UNKNOWN for value in found):
            return UNKNOWN
        function = FUNCTIONS.get(type(expression).__name__)
        return function(*found) if function else UNKNOWN

    def _along(self, variable: sympy.Symbol) -> Any:
        if self.points > MOST:
            raise LoopTooLarge
        shape = [1] * len(self.variables)
        shape[self._axis[variable]] = self.variables[variable]
        return numpy.arange(self.variables[variable]).reshape(shape)

    def where(self, values: Any) -> Any:
        """The different values at the points that no mask takes out, sorted."""
        mask = functools.reduce(operator.and_, self.masks, numpy.asarray(True))
        shape = numpy.broadcast_shapes(values.shape, mask.shape)
        if values.shape == shape and mask.all():
            return numpy.unique(values)
        return numpy.unique(numpy.broadcast_to(values, shape)[numpy.broadcast_to(mask, shape)])


def _grid(offset: int, steps: list[tuple[int, int]]) -> tuple | None:
    offset += sum(step * (length - 1) for step, length in steps if step < 0)
    merged: list[tuple[int, int]] = []
    reach = 0
    for step, length in sorted((abs(step), length) for step, length in steps if step):
        if step <= reach:
            return None
        reach += step * (length - 1)
        if merged and step == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0], merged[-1][1] * length)
        else:
            merged.append((step, length))
    return offset, tuple(merged)


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
            if name in COMPUTED and not any(value is UNKNOWN for value in values):
                return COMPUTED[name](*values)
            return UNKNOWN

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

        def bucketize(self, values, boundaries, *args, **kwargs):
            self._record(boundaries[0], None, int(indices.hint(boundaries[1])), reads=True)
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
            elements: Any = None
            if not any(mask is UNKNOWN for mask in indices.masks):
                elements = indices.grid(index)
                if elements is None:
                    values = indices.values(index)
                    elements = None if values is UNKNOWN else indices.where(values)
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
    except (LoopTooLarge, TypeError, ValueError, AttributeError, NotImplementedError, KeyError, OverflowError):
        return None
    return dict(found)


@dataclass
class Traffic:
    """Bytes that a kernel call reads and writes, each address once; `exact`, or else at most so many."""

    read_bytes: int
    written_bytes: int
    exact: bool


def count(touched: Iterable[Access], itemsize: Callable[[str], int], length: Callable[[str], int]) -> Traffic:
    """The bytes of all accesses of one call together.

    Args:
        touched: the accesses, of buffers that are in memory.
        itemsize: of a buffer, in bytes.
        length: elements of a buffer, which bounds what is not known.
    """
    read, written, exact = 0, 0, True
    by_buffer: dict[str, list[Access]] = defaultdict(list)
    for access in touched:
        by_buffer[access.buffer].append(access)
    for buffer, all_of_it in by_buffer.items():
        for way in ("reads", "writes"):
            some = [access for access in all_of_it if getattr(access, way)]
            elements, known = _union(some, length(buffer))
            exact &= known
            if way == "reads":
                read += elements * itemsize(buffer)
            else:
                written += elements * itemsize(buffer)
    return Traffic(read, written, exact)


def _union(some: list[Access], length: int) -> tuple[int, bool]:
    """How many different elements these accesses touch, and whether that is exact."""
    different: dict[Any, Any] = {}
    for access in some:
        key = access.elements if not isinstance(access.elements, numpy.ndarray) else access.elements.tobytes()
        different[key] = access.elements
    if not all(access.exact for access in some):
        return min(length, sum(access.most for access in some)), False
    if len(different) <= 1:
        return sum(_how_many(elements) for elements in different.values()), True
    if sum(map(_how_many, different.values())) > MOST:
        return min(length, sum(map(_how_many, different.values()))), False
    return len(numpy.unique(numpy.concatenate([_written_out(elements) for elements in different.values()]))), True


def _how_many(elements: Any) -> int:
    return len(elements) if isinstance(elements, numpy.ndarray) else math.prod(length for _, length in elements[1])


def _written_out(elements: Any) -> Any:
    if isinstance(elements, numpy.ndarray):
        return elements
    offset, steps = elements
    found = numpy.asarray([offset])
    for step, length in steps:
        found = (found[:, None] + step * numpy.arange(length)).ravel()
    return found


def of_calls(graphs: list[Any], calls: list[dict], definitions: list[Any]) -> list[Traffic | None]:
    """The traffic of each of a graph's calls of a generated kernel; None where it cannot be told.

    Args:
        graphs: the live `GraphLowering`, and those of the branches and loop bodies within it.
        calls: with the `scheduler_nodes` of each.
        definitions: the `KernelDefinition`s, which say what operations have a line.
    """
    nodes = {
        member.get_name(): (member, graph)
        for graph in graphs
        for node in graph.scheduler.nodes
        for member in node.get_nodes()
    }
    emitted = {(one.scheduler_node, one.name, one.block) for made in definitions for _, one in made.operations}
    defined = {name for made in definitions if made.operations for name in made.scheduler_nodes}
    hint = functools.partial(_hint, graphs[0].sizevars)
    bodies: dict[str, dict | None] = {}

    def of_node(name: str) -> list[Access] | None:
        node, graph = nodes.get(name, (None, None))
        body = getattr(node, "_body", None)
        if graph is None or body is None or name not in defined:
            return None
        if name not in bodies:
            bodies[name] = accesses(body, hint)
        found = bodies[name]
        if found is None:
            return None
        return [access for (operation, block), some in found.items() if (name, operation, block) in emitted
                for access in some if access.buffer not in graph.removed_buffers]  # fmt: skip

    def of_call(call: dict) -> Traffic | None:
        some = [of_node(name) for name in call["scheduler_nodes"]]
        if not some or any(one is None for one in some):
            return None
        graph = nodes[call["scheduler_nodes"][0]][1]
        real = getattr(graph.scheduler, "mutation_real_name", {})
        shared = {buffer: memory for made in definitions if set(made.scheduler_nodes) & set(call["scheduler_nodes"])
                  for buffer, memory in made.in_place.items()}  # fmt: skip
        touched = [access for one in some for access in one or ()]
        name_of = {access.buffer: _memory(access.buffer, real, shared) for access in touched}
        buffer_of = {name: buffer for buffer, name in name_of.items()}
        return count(
            [replace(access, buffer=name_of[access.buffer]) for access in touched],
            lambda name: graph.get_dtype(buffer_of[name]).itemsize,
            lambda name: hint(graph.get_numel(buffer_of[name])),
        )

    return [of_call(call) for call in calls]


def _memory(buffer: str, real: dict[str, str], shared: dict[str, str]) -> str:
    """What memory a buffer's name stands for: another buffer that it changes, or a parameter that several share."""
    while buffer in real and real[buffer] != buffer:
        buffer = real[buffer]
    return shared.get(buffer, buffer)


def _hint(sizes: Any, size: Any) -> int:
    if isinstance(size, int):
        return size
    ask = getattr(sizes, "guarding_hint_or_throw", None) or sizes.size_hint
    return int(size) if getattr(size, "is_Integer", False) else int(ask(size))
