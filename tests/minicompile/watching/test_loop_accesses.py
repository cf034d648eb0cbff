"""Addresses that a loop body's accesses reach are counted as writing them out one by one counts them."""

import sympy
import torch
from loop_bodies import Body
from torch._inductor.virtualized import ops

from minicompile.watching.traffic import loop_indices
from minicompile.watching.traffic.grids import how_many, written_out
from minicompile.watching.traffic.loop_accesses import Access, accesses
from minicompile.watching.traffic.traffic import count


def touched_by(sizes: tuple, run, hint=int) -> list[Access]:
    body = Body(sizes, run)
    return accesses(body, hint)["operation", id(body)]


def test_a_loop_body_reaches_what_its_indices_say():
    def run(row, column):
        ops.store("out", 6 * row + column, ops.load("x", 8 * row + column))

    load, store = touched_by(([4], [6]), run)
    assert (load.buffer, load.reads, load.writes, how_many(load.elements)) == ("x", True, False, 24)
    assert set(written_out(load.elements)) == {8 * row + column for row in range(4) for column in range(6)}
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
    assert written_out(quotient.elements).tolist() == [0, 1, 2]
    assert written_out(remainder.elements).tolist() == [0, 1, 2]


def test_a_masked_load_reaches_only_what_its_mask_lets_through():
    def run(place):
        inside = ops.ge(ops.index_expr(place, torch.int64), ops.constant(2, torch.int64))
        ops.masked(inside, lambda: ops.load("x", place - 2), 0.0)
        ops.load("y", place)

    padded, other = touched_by(([10], []), run)
    assert written_out(padded.elements).tolist() == list(range(8))
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
    assert written_out(load.elements).tolist() == [0, 1]


def test_an_atomic_store_reads_what_it_adds_to():
    (store,) = touched_by(([4], []), lambda place: ops.store("out", place, 1.0, mode="atomic_add"))
    assert (store.reads, store.writes) == (True, True)


def test_a_size_that_is_a_symbol_counts_as_its_hint():
    size = sympy.Symbol("s0", integer=True, positive=True)
    hint = lambda one: int(sympy.sympify(one).subs(size, 5))  # noqa: E731
    (load,) = touched_by(([2], []), lambda place: ops.load("x", size * place), hint)
    assert set(written_out(load.elements).tolist()) == {0, 5}
    (load,) = touched_by(([2], []), lambda place: ops.load("x", (size + 1) * place), hint)
    assert set(written_out(load.elements).tolist()) == {0, 6}


def test_a_loop_that_is_too_large_to_write_out_is_bounded(monkeypatch):
    from torch.utils._sympy.functions import FloorDiv

    monkeypatch.setattr(loop_indices, "MOST", 10)
    (load,) = touched_by(([100], []), lambda place: ops.load("x", FloorDiv(place, 4)))
    assert (load.exact, load.most) == (False, 100)
    (plain,) = touched_by(([100], []), lambda place: ops.load("x", 2 * place))
    assert plain.elements == (0, ((2, 100),))


def test_rows_and_columns_of_a_large_image_are_worked_out_apart():
    from torch.utils._sympy.functions import FloorDiv

    def run(row, column):
        inside = ops.lt(ops.index_expr(row, torch.int64), ops.constant(90_000, torch.int64))
        ops.masked(inside, lambda: ops.load("padded", 100_000 * row + column), 0.0)
        ops.load("resized", 50_000 * FloorDiv(row, 2) + FloorDiv(column, 2))

    padded, resized = touched_by(([100_000], [100_000]), run)
    assert padded.elements == (0, ((1, 9_000_000_000),))
    assert resized.elements == (0, ((1, 2_500_000_000),))


def test_a_loop_that_never_runs_reaches_nothing():
    (load,) = touched_by(([0], [4]), lambda row, column: ops.load("x", 4 * row + column))
    assert load.exact
    assert how_many(load.elements) == 0
