"""Addresses that a loop body's accesses reach are counted as writing them out one by one counts them."""

import itertools
from types import SimpleNamespace

import numpy
import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._inductor.virtualized import V, ops

from minicompile.torch_private import traffic
from minicompile.torch_private.traffic import Access, _grid, _how_many, _Indices, _union, _written_out, accesses, count

steps = st.lists(st.tuples(st.integers(-12, 12), st.integers(1, 5)), max_size=3)


def points(offset: int, walked: list[tuple[int, int]]) -> set[int]:
    """Every offset that loops of these strides and lengths reach."""
    lengths = (range(length) for _, length in walked)
    return {offset + sum(map(int.__mul__, (step for step, _ in walked), at)) for at in itertools.product(*lengths)}


@given(st.integers(0, 9), steps)
def test_a_grid_has_the_points_of_its_loops_each_once(offset, walked):
    walked = [(step, length) for step, length in walked if length > 1]
    grid = _grid(offset, walked)
    if grid is not None:
        assert _how_many(grid) == len(points(offset, walked))
        assert set(_written_out(grid).tolist()) == points(offset, walked)


@pytest.mark.parametrize(
    ("walked", "grid"),
    [
        ([(600, 2), (1, 600)], (5, ((1, 1200),))),  # rows one after another are one run
        ([(700, 2), (1, 600)], (5, ((1, 600), (700, 2)))),  # padded rows are not
        ([(0, 8), (1, 4)], (5, ((1, 4),))),  # an expanded axis is the same memory again
        ([(-1, 4)], (2, ((1, 4),))),  # backwards
        ([(1, 4), (1, 4)], None),  # a sliding window's points coincide
        ([(2, 4), (3, 2)], None),
    ],
)
def test_a_grid_is_in_its_shortest_form_and_none_where_points_may_coincide(walked, grid):
    assert _grid(5, walked) == grid


def access(elements, *, buffer: str = "x", reads: bool = True, most: int = 100) -> Access:
    return Access(buffer, reads, not reads, elements, most)


def test_addresses_that_several_accesses_reach_count_once():
    left, right = (0, ((1, 6),)), (4, ((1, 6),))  # 0..5 and 4..9
    assert _union([access(left)], 50) == (6, True)
    assert _union([access(left), access(left)], 50) == (6, True)
    assert _union([access(left), access(right)], 50) == (10, True)
    assert _union([access(left), access(numpy.asarray([5, 20]))], 50) == (7, True)
    assert _union([], 50) == (0, True)


def test_what_is_not_known_is_bounded_by_the_points_and_by_the_buffer():
    assert _union([access(None, most=7), access((0, ((1, 3),)), most=3)], 50) == (10, False)
    assert _union([access(None, most=700)], 50) == (50, False)


def test_too_many_addresses_to_write_out_are_bounded(monkeypatch):
    monkeypatch.setattr(traffic, "MOST", 10)
    left, right = (0, ((1, 6),)), (4, ((1, 6),))
    assert _union([access(left), access(right)], 50) == (12, False)
    assert _union([access(left), access(right)], 10) == (10, False)
    assert _union([access((0, ((1, 1000),)))], 1000) == (1000, True)  # one grid need not be written out


def test_reads_and_writes_are_counted_apart_in_bytes_of_their_buffers():
    touched = [
        access((0, ((1, 6),))),
        access((4, ((1, 6),))),
        access((0, ((1, 6),)), reads=False),
        access((0, ((1, 3),)), buffer="y", reads=False),
    ]
    found = count(touched, {"x": 4, "y": 2}.__getitem__, lambda _buffer: 50)
    assert (found.read_bytes, found.written_bytes, found.exact) == (40, 24 + 6, True)
    unknown = count([*touched, access(None, buffer="y", most=9)], {"x": 4, "y": 2}.__getitem__, lambda _buffer: 50)
    assert (unknown.read_bytes, unknown.written_bytes, unknown.exact) == (40 + 18, 30, False)


class Body:
    """A loop body as Inductor runs one: called with its variables, under an interpreter that knows the operation."""

    def __init__(self, sizes: tuple, run) -> None:
        self.sizes, self.run = sizes, run

    def __call__(self, *variables) -> None:
        node = SimpleNamespace(name="operation", graph=self)
        with V.set_interpreter_handler(SimpleNamespace(current_node=node)):
            self.run(*(one for group in variables for one in group))


def touched_by(sizes: tuple, run, hint=int) -> list[Access]:
    body = Body(sizes, run)
    return accesses(body, hint)["operation", id(body)]


def test_a_loop_body_reaches_what_its_indices_say():
    def run(row, column):
        ops.store("out", 6 * row + column, ops.load("x", 8 * row + column))

    load, store = touched_by(([4], [6]), run)
    assert (load.buffer, load.reads, load.writes, _how_many(load.elements)) == ("x", True, False, 24)
    assert set(_written_out(load.elements)) == {8 * row + column for row in range(4) for column in range(6)}
    assert (store.buffer, store.reads, store.writes, store.elements) == ("out", False, True, (0, ((1, 24),)))


def test_a_sliding_window_reaches_each_place_once():
    (load,) = touched_by(([10], [3]), lambda place, window: ops.load("x", place + window))
    assert load.elements.tolist() == list(range(12))
    assert load.exact


def test_an_index_with_a_quotient_is_worked_out_at_every_point():
    from torch.utils._sympy.functions import FloorDiv, ModularIndexing

    def run(place):
        ops.load("x", FloorDiv(place, 4))
        ops.load("x", ModularIndexing(place, 2, 3))

    quotient, remainder = touched_by(([12], []), run)
    assert quotient.elements.tolist() == [0, 1, 2]
    assert remainder.elements.tolist() == [0, 1, 2]


def test_a_masked_load_reaches_only_what_its_mask_lets_through():
    def run(place):
        inside = ops.ge(ops.index_expr(place, torch.int64), ops.constant(2, torch.int64))
        ops.masked(inside, lambda: ops.load("x", place - 2), 0.0)
        ops.load("y", place)

    padded, other = touched_by(([10], []), run)
    assert padded.elements.tolist() == list(range(8))
    assert (padded.exact, other.elements) == (True, (0, ((1, 10),)))  # the mask ends with its body


def test_a_mask_out_of_memory_or_an_index_out_of_memory_is_not_exact():
    def run(place):
        found = ops.load("rows", place)
        ops.masked(ops.lt(found, ops.constant(3, torch.int64)), lambda: ops.load("x", place), 0.0)
        ops.load("table", ops.indirect_indexing(found, 100))

    rows, masked, indirect = touched_by(([10], []), run)
    assert rows.exact
    assert (masked.exact, masked.most) == (False, 10)
    assert (indirect.exact, indirect.most) == (False, 10)
    found = count([rows, masked, indirect], lambda _buffer: 1, lambda _buffer: 1000)
    assert (found.read_bytes, found.exact) == (30, False)


def test_an_index_that_is_computed_and_not_loaded_is_known():
    def run(place):
        row = ops.floordiv(ops.index_expr(place, torch.int64), ops.constant(5, torch.int64))
        ops.load("x", ops.indirect_indexing(row, 2))

    (load,) = touched_by(([10], []), run)
    assert load.elements.tolist() == [0, 1]


def test_an_atomic_store_reads_what_it_adds_to():
    (store,) = touched_by(([4], []), lambda place: ops.store("out", place, 1.0, mode="atomic_add"))
    assert (store.reads, store.writes) == (True, True)


def test_a_size_that_is_a_symbol_counts_as_its_hint():
    size = sympy.Symbol("s0", integer=True, positive=True)
    hint = lambda one: int(sympy.sympify(one).subs(size, 5))  # noqa: E731
    (load,) = touched_by(([2], []), lambda place: ops.load("x", size * place), hint)
    assert set(_written_out(load.elements).tolist()) == {0, 5}
    (load,) = touched_by(([2], []), lambda place: ops.load("x", (size + 1) * place), hint)
    assert set(_written_out(load.elements).tolist()) == {0, 6}


def test_a_loop_that_is_too_large_to_write_out_is_left_out(monkeypatch):
    from torch.utils._sympy.functions import FloorDiv

    monkeypatch.setattr(traffic, "MOST", 10)
    assert accesses(Body(([100], []), lambda place: ops.load("x", FloorDiv(place, 4))), int) is None
    (plain,) = touched_by(([100], []), lambda place: ops.load("x", 2 * place))
    assert plain.elements == (0, ((2, 100),))


def test_indices_are_arrays_that_broadcast_over_the_loops():
    row, column = sympy.symbols("row column", integer=True)
    indices = _Indices([(row, 3), (column, 4)], int)
    assert indices.values(10 * row + column).shape == (3, 4)
    indices.masks.append(numpy.arange(4).reshape(1, 4) % 2 == 1)
    assert indices.grid(10 * row + column) is None
    assert indices.where(indices.values(10 * row + column)).tolist() == [1, 3, 11, 13, 21, 23]
    assert indices.where(indices.values(10 * row)).tolist() == [0, 10, 20]
