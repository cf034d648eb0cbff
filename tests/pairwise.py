"""Of a matrix of cases as many as hold every pair of values: the others go the same ways in other company.

Most faults that a combination brings out, two of its values bring out (Kuhn, Wallace and Gallo, Software Fault
Interactions and Implications for Software Testing, IEEE TSE 30, 2004). `pytest --every-case` runs whole matrices.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations

import pytest


def pairwise(rows: Iterable[Sequence], values: Callable[..., Sequence[Hashable]] = lambda *row: row) -> list:
    """Mark the rows that can be spared, so that the rest still has every pair of values that stands in any row.

    Args:
        rows: the cases of the matrix, which need not be all combinations, each as a test's arguments.
        values: what is paired, as many values for each row, off its arguments.

    Returns:
        The rows as parameters of a test, those that are spared with the marker `spared`.
    """
    rows = [tuple(row) for row in rows]
    pairs = [frozenset(combinations(enumerate(values(*row)), 2)) for row in rows]
    kept: set[int] = set()
    missing = set().union(*pairs)
    while missing:
        best = max(range(len(rows)), key=lambda number: len(pairs[number] & missing))  # the first of the best
        kept.add(best)
        missing -= pairs[best]
    return [pytest.param(*row, marks=() if n in kept else pytest.mark.spared) for n, row in enumerate(rows)]
