"""Grids of offsets are counted as writing them out one by one counts them."""

import itertools

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicompile.watching.traffic import grids
from minicompile.watching.traffic.grids import grid, how_many, in_union, within, written_out

steps = st.lists(st.tuples(st.integers(-12, 12), st.integers(1, 5)), max_size=3)


def points(offset: int, walked: list[tuple[int, int]]) -> set[int]:
    """Every offset that loops of these strides and lengths reach."""
    lengths = (range(length) for _, length in walked)
    return {offset + sum(map(int.__mul__, (step for step, _ in walked), at)) for at in itertools.product(*lengths)}


@given(st.integers(0, 9), steps)
def test_a_grid_has_the_points_of_its_loops_each_once(offset, walked):
    walked = [(step, length) for step, length in walked if length > 1]
    found = grid(offset, walked)
    if found is not None:
        assert how_many(found) == len(points(offset, walked))
        assert set(written_out(found).tolist()) == points(offset, walked)


@pytest.mark.parametrize(
    ("walked", "shortest"),
    [
        ([(600, 2), (1, 600)], (5, ((1, 1200),))),  # rows one after another are one run
        ([(700, 2), (1, 600)], (5, ((1, 600), (700, 2)))),  # padded rows are not
        ([(0, 8), (1, 4)], (5, ((1, 4),))),  # an expanded axis is the same memory again
        ([(-1, 4)], (2, ((1, 4),))),  # backwards
        ([(1, 4), (1, 4)], None),  # a sliding window's points coincide
        ([(2, 4), (3, 2)], None),
    ],
)
def test_a_grid_is_in_its_shortest_form_and_none_where_points_may_coincide(walked, shortest):
    assert grid(5, walked) == shortest


@given(st.lists(st.tuples(st.integers(0, 9), steps), min_size=1, max_size=4))
def test_a_union_has_the_points_of_all_each_once(several):
    several = [(offset, [(step, length) for step, length in walked if length > 1]) for offset, walked in several]
    every = [points(offset, walked) for offset, walked in several]
    sets = [grid(offset, walked) for offset, walked in several]
    sets = [numpy.asarray(sorted(some)) if one is None else one for one, some in zip(sets, every, strict=True)]
    assert in_union(sets) == len(set().union(*every))


@pytest.mark.parametrize(
    ("sets", "together"),
    [
        ([(0, ((1, 3), (10, 10**9))), (2, ((1, 4), (10, 10**9)))], 6 * 10**9),  # two slices of every row
        ([(0, ((2, 10**9),)), (1, ((2, 10**9),))], 2 * 10**9),  # every other element, and the others
        ([(0, ((1, 10**12),)), (5, ((1, 3), (10**6, 10**6)))], 10**12),  # a part of the whole
        ([(0, ((3, 10**9),)), (0, ((7, 10**9),))], None),  # these would have to be written out
    ],
)
def test_a_union_of_millions_is_counted_where_its_grids_share_their_loops_or_lie_in_runs(sets, together):
    assert in_union(sets) == together


def test_the_longest_that_is_written_out_can_be_set(monkeypatch):
    monkeypatch.setattr(grids, "MOST", 5)
    assert in_union([(0, ((2, 6),)), (0, ((3, 4),))]) is None


@given(st.integers(-30, 30), steps, st.integers(-40, 40), st.integers(0, 60))
def test_what_of_a_set_lies_in_a_buffer_is_found_without_writing_it_out(offset, walked, first, length):
    found = grid(offset, [(step, length) for step, length in walked if length > 1])
    if found is not None:
        inside = {point for point in points(offset, walked) if first <= point < first + length}
        for elements in (found, written_out(found)):
            parts = within(elements, first, first + length)
            assert sum(map(how_many, parts)) == len(inside)
            assert {int(point) for part in parts for point in written_out(part)} == inside


def test_a_set_of_a_billion_offsets_is_cut_in_no_time():
    rows = (-1, ((1, 1000), (1001, 1_000_000)))
    assert within(rows, 0, 1 << 40) == [(1000, ((1, 1000), (1001, 999_999))), (0, ((1, 999),))]
