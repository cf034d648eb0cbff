"""Pairs of values: none is lost, and about as few cases are left as there can be."""

from itertools import combinations, product

from pairwise import pairwise


def pairs(rows) -> set:
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


def test_every_pair_of_a_matrix_is_kept_by_few_of_its_rows():
    rows = list(product(range(9), "ab", (None, False, True), ("raise", "fall back")))
    found = pairwise(rows)
    kept = [one.values for one in found if not one.marks]
    assert [one.values for one in found] == rows
    assert pairs(kept) == pairs(rows)
    assert len(kept) == 27  # the fewest: each of nine with each of three


def test_of_rows_that_are_no_whole_matrix_the_pairs_that_there_are_are_kept():
    rows = [("eager", None), ("eager", "lies"), ("inductor", None), ("eager", None)]
    assert [one.values for one in pairwise(rows) if not one.marks] == rows[:3]


def test_what_is_paired_may_be_read_off_the_arguments():
    found = pairwise([("ab",), ("ac",), ("bb",), ("ab",)], values=tuple)
    assert [bool(one.marks) for one in found] == [False, False, False, True]
