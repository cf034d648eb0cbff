"""Relative error: what absolute tolerances let pass does not pass here."""

import math

import pytest
import torch

from minikernel.proof.accuracy import softmax_error


def test_float32_softmax_is_near_and_float64_is_exact():
    x = torch.randn(64, 600, generator=torch.Generator().manual_seed(0))
    assert softmax_error(torch.softmax(x.double(), -1), x) == 0
    assert 0 < softmax_error(torch.softmax(x, -1), x) < 1e-6


def test_zeros_have_an_error_of_one():
    x = torch.randn(4, 50257)
    assert softmax_error(torch.zeros_like(x), x) == 1


def test_nan_is_infinitely_wrong():
    x = torch.randn(4, 5)
    result = torch.softmax(x, -1)
    result[3, 2] = math.nan
    assert softmax_error(result, x) == math.inf


@pytest.mark.parametrize(("value", "error"), [(0.0, 0.0), (1e-38, 0.0), (1e-30, math.inf)])
def test_below_the_smallest_normal_a_value_must_only_be_as_small(value, error):
    x = torch.tensor([[0.0, -200.0]])
    assert softmax_error(torch.tensor([[1.0, value]]), x) == error


def test_rows_beyond_the_first_chunk_are_looked_at(monkeypatch):
    monkeypatch.setattr("minikernel.proof.accuracy.ROWS_AT_ONCE", 4)
    x = torch.randn(10, 3)
    result = torch.softmax(x, -1)
    result[9] *= 2
    assert softmax_error(result, x) == pytest.approx(1, rel=1e-5)
