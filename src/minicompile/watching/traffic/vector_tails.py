"""What a C++ kernel loads under a mask beyond what its loop body names, because it runs in vectors.

The last vector of a loop may end past the loop's end. Under a mask (of a padding, a shift, a part of a concatenation)
Inductor writes loads in three ways:

- neighbours are loaded by the mask alone, `mask.template loadu<float,1>(...)`, and the mask is computed past the loop's
  end too: lanes there are touched where it lets them through;
- a place that all lanes share, and booleans, are loaded as if there were no mask, but for vectors none of whose lanes
  it lets through, `if (mask.all_zero())`;
- all else is loaded lane by lane, up to the loop's end, which is what the loop body says.

`VectorLoops` notes which load of which kernel is written in which way; `beyond` runs the loop body over whole vectors.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy
import sympy
import torch

from minicompile.torch_private.names import owner
from minicompile.watching.traffic.loop_accesses import Access, answering, over
from minicompile.watching.traffic.loop_indices import UNKNOWN, Indices, computed

Key = tuple[str, int]  # an operation of a loop body: its name, and the id of its graph


@dataclass
class VectorLoop:
    """A scheduler node's part of a loop nest, as one C++ kernel runs it: `lanes` values of one axis at a time."""

    scheduler_node: str
    axis: int
    lanes: int
    ranges: list[tuple[Any, Any]] = field(default_factory=list)  # where each loop begins and ends
    by_mask: set[Key] = field(default_factory=set)  # loads of neighbours under a mask
    at_once: set[Key] = field(default_factory=set)  # loads that any lane of the mask is enough for
    by_lane: set[Key] = field(default_factory=set)  # indices that are 0 behind the loop's end


class VectorLoops:
    """The hooks, and what they have seen since kernels were last taken."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], tuple[Any, VectorLoop]] = {}  # each with its kernel

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a compile."""
        kernels, virtual = owner("vector_load"), owner("V").V
        original, lane_by_lane = kernels.load, kernels._load_or_store_non_contiguous

        def load(kernel, name, index):
            if kernel._load_mask is not None:
                axis = kernel.itervars[kernel.tiling_idx]
                stride = kernel._try_get_const_stride(kernel.rename_indexing(index), axis)
                if stride == 0 or (stride == 1 and virtual.graph.get_dtype(name) == torch.bool):
                    self._loop(kernel).at_once.add(_operation())
                elif stride == 1:
                    self._loop(kernel).by_mask.add(_operation())
            return original(kernel, name, index)

        def load_or_store(kernel, var, *args, **kwargs):
            if var is None:  # an index
                self._loop(kernel).by_lane.add(_operation())
            return lane_by_lane(kernel, var, *args, **kwargs)

        yield mock.patch.object(kernels, "load", load)
        yield mock.patch.object(kernels, "_load_or_store_non_contiguous", load_or_store)

    def _loop(self, kernel: Any) -> VectorLoop:
        node = kernel.current_node.get_name()
        new = VectorLoop(node, kernel.tiling_idx, kernel.tiling_factor)
        return self._seen.setdefault((id(kernel), node), (kernel, new))[1]

    def take(self) -> list[VectorLoop]:
        """Hand over what is known by now of the kernels that are in use, and forget it."""
        found = []
        for kernel, loop in self._seen.values():
            parts, whole = kernel.active_ranges, zip(kernel.itervars, kernel.ranges, strict=True)
            if kernel.itervars[loop.axis] in parts and (loop.by_mask or loop.at_once):
                named = {name: size for size, name in kernel.args.sizevars.items()}
                ranges = [parts.get(variable, (0, size)) for variable, size in whole]
                loop.ranges = [(_renamed(begin, named), _renamed(end, named)) for begin, end in ranges]
                found.append(loop)
        self._seen.clear()
        return found


def _operation() -> Key:
    """The operation of a loop body that is at work."""
    node = owner("V").V.interpreter.current_node
    return node.name, id(node.graph)


def _renamed(size: Any, named: dict[str, Any]) -> sympy.Expr:
    """A size in the graph's symbols, of one in the names that a kernel's arguments have."""
    size = sympy.sympify(size)
    return size.xreplace({symbol: named[symbol.name] for symbol in size.free_symbols if symbol.name in named})


def beyond(body: Any, loop: VectorLoop, hint: Callable[[Any], int]) -> dict[Key, list[Access]] | None:
    """What loads touch besides what `accesses` tells of them; None where that cannot be told.

    It may tell some of that again, and offsets outside of the buffer.

    Args:
        body: the Inductor `LoopBody` of the loop's node.
        loop: of one kernel.
        hint: the number that a symbolic size has for the example inputs.
    """
    ranges = loop.ranges[: sum(map(len, body.sizes))]  # what follows a reduction does not run over its loops
    if loop.axis >= len(ranges):
        return {}
    begin, end = map(hint, ranges[loop.axis])
    past = -(end - begin) % loop.lanes
    if begin == end or not (past or loop.at_once):
        return {}
    ranges[loop.axis] = (begin, end + past)
    return over(body, ranges, hint, functools.partial(_answering, loop, past))


def _answering(loop: VectorLoop, past: int, indices: Indices, found: dict[Key, list[Access]]) -> Any:
    """`answering`, where the last `past` values of the vectors' axis lie past the loop's end."""
    axis, lengths = loop.axis, list(indices.variables.values())
    inside = numpy.arange(lengths[axis]) < lengths[axis] - past
    inside = inside.reshape([-1 if one == axis else 1 for one in range(len(lengths))])

    class Lanes(answering(indices, found)):  # type: ignore[misc]
        def index_expr(self, expression, dtype):
            value = super().index_expr(expression, dtype)
            return computed(numpy.where, inside, value, numpy.asarray(0)) if _operation() in loop.by_lane else value

        value_expr = index_expr

        def _touch(self, name, index, *, reads=False, writes=False):
            operation, masks = _operation(), indices.masks
            if operation in loop.by_mask:
                most = indices.points // lengths[axis] * past
                indices.masks = [*masks, ~inside]
            elif operation in loop.at_once:
                known = indices.groups((index,)) is not None  # else what the loop body says of it is a bound already
                most = indices.points if known else 0
                indices.masks = [*any_lane(masks, axis, loop.lanes), inside]
            else:
                return UNKNOWN
            self._record(name, indices.reached(index), most, reads=reads, writes=writes)
            indices.masks = masks
            return UNKNOWN

    return Lanes


def any_lane(masks: list[Any], axis: int, lanes: int) -> list[Any]:
    """Masks that let a whole vector through where `masks` together let one of its lanes through."""
    if any(mask is UNKNOWN for mask in masks):
        return [UNKNOWN]
    varies = [mask.ndim > axis and mask.shape[axis] > 1 for mask in masks]
    same = list(itertools.compress(masks, map(operator.not_, varies)))
    if not any(varies):
        return same
    together = computed(lambda *some: functools.reduce(operator.and_, some), *itertools.compress(masks, varies))
    if together is UNKNOWN:
        return [UNKNOWN]
    before, (length, *after) = together.shape[:axis], together.shape[axis:]
    vectors = together.reshape(*before, length // lanes, lanes, *after).any(axis + 1)
    return [*same, vectors.repeat(lanes, axis)]
