"""Lanes that vectors load under a mask are those that the generated code loads, vector by vector."""

from types import SimpleNamespace

import numpy
import pytest
import sympy
import torch
from loop_bodies import Body
from torch._inductor.virtualized import ops
from torch.utils._sympy.functions import FloorDiv

from minicompile.watching.traffic.grids import written_out
from minicompile.watching.traffic.loop_accesses import Access, accesses
from minicompile.watching.traffic.loop_indices import UNKNOWN
from minicompile.watching.traffic.vector_tails import VectorLoop, VectorLoops, any_lane, beyond

LANES = 8


def shifted(place, by: int = 1):
    """Loads what lies some places before, where there is such a place."""
    inside = ops.ge(ops.index_expr(place - by, torch.int64), ops.constant(0, torch.int64))
    ops.masked(inside, lambda: ops.load("x", place - by), 0.0)


def more(run, *ranges: tuple[int, int], way: str = "by_mask", axis: int = -1, **others) -> list[Access]:
    """What the vectors of a loop add, all of whose operations are one and loaded in one way."""
    body = Body((ranges, ()), run)
    operation = ("operation", id(body))
    loop = VectorLoop("node", axis % len(ranges), LANES, list(ranges), **{way: {operation}})
    loop.by_lane = {operation} if others.get("by_lane") else set()
    found = beyond(body, loop, int)
    return found.get(operation, []) if found is not None else pytest.fail("it could not be told")


def offsets(found: list[Access]) -> set[int]:
    return {int(one) for access in found for one in written_out(access.elements)}


@pytest.mark.parametrize(("length", "by"), [(37, 1), (37, 36), (37, 39), (40, 1), (5, 2)])
def test_neighbours_are_loaded_past_the_loops_end_where_the_mask_lets_them_through(length: int, by: int):
    """`mask.loadu` of each vector: all of its lanes, those of a last one that is cut off too."""
    vectors = [begin + lane - by for begin in range(0, length, LANES) for lane in range(LANES)]
    touched = {offset for offset in vectors if offset >= 0}
    body = Body(([length], []), lambda place: shifted(place, by))
    [named] = accesses(body, int).values()
    added = offsets(more(lambda place: shifted(place, by), (0, length)))
    assert offsets(named) == set(range(length - by))
    assert added == touched - offsets(named)


@pytest.mark.parametrize(("length", "by"), [(37, 1), (37, 36), (37, 39), (37, 9)])
def test_booleans_are_loaded_whole_vectors_at_a_time_unless_their_mask_is_empty(length: int, by: int):
    """`if (mask.all_zero()) ... else from(p, count)`: the mask has all lanes, the load ends with the loop."""
    touched = set()
    for begin in range(0, length, LANES):
        if any(begin + lane - by >= 0 for lane in range(LANES)):
            touched |= {place - by for place in range(begin, min(begin + LANES, length))}
    assert offsets(more(lambda place: shifted(place, by), (0, length), way="at_once")) == touched


@pytest.mark.parametrize("needed", [36, 37, 39, 40])
def test_a_place_that_lanes_share_is_loaded_where_one_past_the_end_needs_it(needed: int):
    def run(row, place):
        inside = ops.ge(ops.index_expr(place, torch.int64), ops.constant(needed, torch.int64))
        ops.masked(inside, lambda: ops.load("x", row), 0.0)

    assert offsets(more(run, (0, 3), (0, 37), way="at_once")) == ({0, 1, 2} if needed < 40 else set())


def test_an_index_that_is_worked_out_lane_by_lane_is_0_past_the_loops_end():
    def run(place):
        low = ops.lt(ops.index_expr(FloorDiv(place, 4), torch.int64), ops.constant(2, torch.int64))
        ops.masked(low, lambda: ops.load("x", place), 0.0)

    assert offsets(more(run, (0, 37), by_lane=True)) == {37, 38, 39}
    assert offsets(more(run, (0, 37))) == set()


def test_each_row_has_a_vector_that_is_cut_off():
    def run(row, column):
        inside = ops.ge(ops.index_expr(column, torch.int64), ops.constant(1, torch.int64))
        ops.masked(inside, lambda: ops.load("x", 50 * row + column - 1), 0.0)

    assert offsets(more(run, (0, 3), (32, 37))) == {50 * row + lane - 1 for row in range(3) for lane in (37, 38, 39)}
    assert offsets(more(run, (0, 3), (0, 37), axis=0)) == {
        50 * row + column for row in range(3, LANES) for column in range(36)
    }


def test_a_loop_that_its_vectors_fill_adds_nothing_nor_does_what_follows_it():
    body = Body(([3], []), shifted)
    past = VectorLoop("node", 1, LANES, [(0, 3), (0, 37)], by_mask={("operation", id(body))})
    assert beyond(body, past, int) == {}
    assert more(shifted, (0, 32)) == more(shifted, (5, 5), way="at_once") == []


def test_what_a_mask_out_of_memory_lets_through_is_bounded():
    def run(row, place):
        seen = ops.load("mask", place)
        ops.masked(seen, lambda: ops.load("x", 37 * row + place), 0.0)

    def of_x(way: str) -> Access:
        [found] = [access for access in more(run, (0, 2), (0, 37), way=way) if access.buffer == "x"]
        return found

    assert (of_x("by_mask").exact, of_x("by_mask").most) == (False, 2 * 3)
    assert (of_x("at_once").exact, of_x("at_once").most) == (False, 0)  # the loop body's own bound is of all points


def test_masks_are_widened_to_vectors_together():
    low, high = (numpy.arange(16).reshape(1, 16) < 5), (numpy.arange(16).reshape(1, 16) >= 3)
    rows, one = numpy.asarray([[True], [False]]), numpy.asarray(True)
    kept_rows, kept_one, wide = any_lane([low, rows, high, one], 1, LANES)
    assert kept_rows is rows
    assert kept_one is one
    assert wide.tolist() == [[True] * 8 + [False] * 8]
    assert any_lane([low, numpy.invert(low)], 1, LANES)[0].any() == False  # noqa: E712 — no lane has both
    assert any_lane([rows], 1, LANES) == [rows]
    assert any_lane([low, UNKNOWN], 1, LANES) == [UNKNOWN]


def test_loops_are_taken_of_kernels_in_use_and_in_the_graphs_symbols():
    size, named = sympy.symbols("s0 ks0", integer=True)

    def kernel(**parts) -> SimpleNamespace:
        names = SimpleNamespace(sizevars={size: "ks0"})
        return SimpleNamespace(itervars=["x0", "x1"], ranges=[3, named], active_ranges=parts, args=names)

    def noted(*kernels: SimpleNamespace) -> list[VectorLoop]:
        hooks = VectorLoops()
        hooks._seen = {(number, "node"): (one, VectorLoop("node", 1, LANES, by_mask={("load", 1)}))
                       for number, one in enumerate(kernels)}  # fmt: skip
        found = hooks.take()
        assert hooks.take() == []
        return found

    [loop] = noted(kernel(x1=(8 * FloorDiv(named, 8), named)), kernel())
    assert loop.ranges == [(0, 3), (8 * FloorDiv(size, 8), size)]
