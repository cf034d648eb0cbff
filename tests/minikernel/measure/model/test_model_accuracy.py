"""What a forward pass must not be farther off than, to be timed."""

import pytest
import torch
from lab import ROOT

from minikernel.measure.model.accuracy import TOLERANCES, error_of
from minilab.files import read_json


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("factor", [0, 2])
def test_zeros_and_doubled_probabilities_are_beyond_every_tolerance(dtype: str, factor: int):
    torch.manual_seed(0)
    exact = torch.randn(2, 3, 7, dtype=torch.float64).softmax(-1)
    wrong = (factor * exact).to(getattr(torch, dtype))
    assert error_of(wrong, exact) > TOLERANCES[dtype]


def test_every_rung_of_the_record_is_within_its_tolerance():
    rows = read_json(ROOT / "results/recorded/h200/26/model.json")["forward"]
    assert {row["dtype"] for row in rows} == {*TOLERANCES}
    assert [row["rung"] for row in rows if not row["max_rel_err"] <= TOLERANCES[row["dtype"]]] == []
