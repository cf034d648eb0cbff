"""Index expressions are worked out as at each point of the loops by itself."""

import numpy
import pytest
import sympy

from minicompile.watching.traffic.grids import written_out
from minicompile.watching.traffic.loop_indices import Indices, distinct


def test_masks_and_indices_that_share_an_axis_are_worked_out_together():
    row, column = sympy.symbols("row column", integer=True)
    indices = Indices([(row, 3), (column, 4)], int)
    assert indices.values(10 * row + column).shape == (3, 4)
    indices.masks.append(numpy.arange(4).reshape(1, 4) % 2 == 1)
    assert sorted(written_out(indices.reached(10 * row + column))) == [1, 3, 11, 13, 21, 23]
    assert sorted(written_out(indices.reached(10 * row))) == [0, 10, 20]
    indices.masks.append(numpy.arange(3).reshape(3, 1) < numpy.arange(4).reshape(1, 4))
    assert indices.reached(10 * row + column).tolist() == [1, 3, 13, 23]
    indices.masks.append(numpy.asarray(False))
    assert len(indices.reached(10 * row)) == 0


@pytest.mark.parametrize("values", [[], [3], [1, 2, 2, 5], [4, 1, 4, 0, 1], [2.5, -1.0, 2.5]])
def test_different_values_are_numpys(values: list):
    assert distinct(numpy.array(values)).tolist() == numpy.unique(values).tolist()
