"""Sets of offsets into a buffer, as grids or as sorted arrays: how many there are, and how many in several together.

A grid is (offset, ((stride, length), ...)), the strides positive and growing, none of its points coinciding with
another.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy

MOST = 1 << 22  # what is written out one by one, runs or indices
Grid = tuple[int, tuple[tuple[int, int], ...]]


def grid(offset: int, steps: Iterable[tuple[int, int]]) -> Grid | None:
    """The offsets that nested loops reach, in the shortest form; None where two of their points may coincide.

    Args:
        offset: where the loops begin.
        steps: the (stride, length) of each, in any order.
    """
    steps = list(steps)
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


def how_many(elements: Any) -> int:
    """The number of offsets in a set."""
    return len(elements) if isinstance(elements, numpy.ndarray) else math.prod(length for _, length in elements[1])


def written_out(elements: Any) -> Any:
    """All offsets of a set, as an array."""
    if isinstance(elements, numpy.ndarray):
        return elements
    offset, steps = elements
    found = numpy.asarray([offset])
    for step, length in steps:
        found = (found[:, None] + step * numpy.arange(length)).ravel()
    return found


def within(elements: Any, first: int, end: int) -> list[Any]:
    """A set's offsets from `first` up to `end`, which is not among them, as sets that share none."""
    if isinstance(elements, numpy.ndarray):
        return [elements[(elements >= first) & (elements < end)]]
    offset, steps = elements
    last = _last(elements)
    if first <= offset and last < end:
        return [elements]
    if last < first or offset >= end:
        return []
    *inner, (step, length) = steps
    reach = last - step * (length - 1) - offset  # of what each step of the outermost loop lays out
    whole = range(max(0, -((offset - first) // step)), min(length, (end - 1 - reach - offset) // step + 1))
    cut = [one for one in {whole.start - 1, whole.start, whole.stop} if 0 <= one < length and one not in whole]
    found = [(offset + step * whole.start, (*inner, (step, len(whole))))] if whole else []
    return found + [part for one in cut for part in within((offset + step * one, tuple(inner)), first, end)]


def in_union(sets: list[Any]) -> int | None:
    """How many different offsets several sets have together; None where finding out would take too long.

    Loops that all of them share, and whose steps reach over the rest of each, are counted once and multiplied; what is
    left is laid out as runs of neighbouring offsets, which is what makes tensors of millions of rows cheap.
    """
    factor, sets = 1, list(sets)
    while all(isinstance(one, tuple) and one[1] for one in sets) and len({one[1][-1] for one in sets}) == 1:
        (step, length), inner = sets[0][1][-1], [(offset, steps[:-1]) for offset, steps in sets]
        if max(map(_last, inner)) - min(offset for offset, _ in inner) >= step:
            break
        factor, sets = factor * length, inner
    shapes = [_run(one) for one in sets]
    if sum(how_many(starts) for starts, _ in shapes) > MOST:
        return None
    runs = [(written_out(starts), length) for starts, length in shapes]
    starts = numpy.concatenate([first for first, _ in runs])
    ends = numpy.concatenate([first + length for first, length in runs])
    order = numpy.argsort(starts, kind="stable")
    starts, ends = starts[order], numpy.maximum.accumulate(ends[order])
    before = numpy.concatenate([starts[:1], ends[:-1]])
    return factor * int(numpy.maximum(ends - numpy.maximum(starts, before), 0).sum())


def _last(one: Grid) -> int:
    offset, steps = one
    return offset + sum(step * (length - 1) for step, length in steps)


def _run(elements: Any) -> tuple[Any, int]:
    """A set as (where runs of neighbours begin, how long each of them is)."""
    if isinstance(elements, tuple) and elements[1] and elements[1][0][0] == 1:
        offset, ((_, length), *steps) = elements
        return (offset, tuple(steps)), length
    return elements, 1
