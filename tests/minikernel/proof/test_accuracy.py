"""Relative error: what absolute tolerances let pass does not pass here."""

import math

import pytest
import torch
from declared_faults import check_says, fault

from minikernel.measure.contest.head_contest import head_error
from minikernel.measure.cpu.bench import _errors
from minikernel.proof.accuracy import exact_softmax, softmax_error
from minikernel.reasons import Refusal


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


TORCHS = torch.softmax
FAULTS = {
    "too large": lambda y: y * 1.01,
    "too large in one row": lambda y: y * torch.ones(len(y), 1, dtype=y.dtype).index_fill(0, torch.tensor(1), 1 + 1e-8),
    "of another column": lambda y: y.roll(1, -1),
    "of another row": lambda y: y.roll(1, 0),
    "of float32": lambda y: y.float().double(),
    "all alike": lambda y: torch.full_like(y, 1 / y.shape[-1]),
    "NaN in one row": lambda y: y.index_fill(0, torch.tensor(2), torch.nan),
    "zeros": torch.zeros_like,
}


@fault(
    "torch's softmax is wrong in float64 on a device",
    "torch's softmax in float64, by which kernels are judged, is itself off on ... at ... columns; judge them on "
    "another device or with another version of torch.",
    "Nothing is judged by it.",
)
@pytest.mark.parametrize("wrong", FAULTS.values(), ids=FAULTS)
def test_a_reference_that_is_off_judges_nothing(monkeypatch, wrong, says):
    def softmax(x, dim):
        y = TORCHS(x, dim)
        return wrong(y) if x.dtype == torch.float64 and x.shape[-1] in (600, 781) else y

    x, h, weight = torch.randn(5, 781), torch.randn(5, 64), torch.randn(600, 64)
    exact = TORCHS(x.double(), -1)
    monkeypatch.setattr(torch, "softmax", softmax)
    for judge in (
        lambda: softmax_error(exact, x),
        lambda: softmax_error(wrong(exact), x),  # a kernel with the same fault
        lambda: head_error(torch.zeros(5, 600), h, weight),
        lambda: _errors({"F.softmax": lambda x: exact.float()}, x, {"dtype": "float32"}, [5, 781]),
    ):
        with pytest.raises(Refusal) as refusal:
            judge()
        check_says(str(refusal.value), says)
    assert softmax_error(TORCHS(x[:, :7].double(), -1), x[:, :7]) == 0


def test_a_sound_reference_passes_with_rows_of_every_kind():
    x = torch.randn(9, 1000, dtype=torch.float64)
    x[1], x[2, 5], x[3, 7], x[4, ::2], x[5] = -math.inf, math.nan, math.inf, -math.inf, 1e300
    x[6, 3], x[7] = 1e300, 800 * x[7]
    assert torch.equal(exact_softmax(x).nan_to_num(2), torch.softmax(x, -1).nan_to_num(2))
    for shape in ((0, 5), (1, 1), (3, 0)):
        assert exact_softmax(torch.randn(shape, dtype=torch.float64)).shape == shape
