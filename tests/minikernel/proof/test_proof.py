"""The proof must catch what goes wrong in softmax kernels, and name it."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from minikernel.proof.proof import (
    REFERENCE_TOLERANCE,
    TOLERANCE,
    Case,
    adversarial_cases,
    numpy_error,
    poisoned_memory,
    prove,
    prove_kernel,
)
from minilab import LabError


def exact(x):
    return F.softmax(x.double(), -1).to(x.dtype)


def unwritten(x):
    y = torch.empty_like(x)
    y.view(-1)[:-1] = exact(x).reshape(-1)[:-1]
    return y


def unshifted(x):
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


def in_place(x):
    return x.copy_(exact(x)) if x.is_contiguous() else exact(x)


WRONG = {
    "zeros": torch.zeros_like,
    "not normalised": lambda x: 1.00001 * exact(x),
    "no maximum subtracted": unshifted,
    "an element unwritten": unwritten,
    "another dtype": lambda x: exact(x).double(),
    "another shape": lambda x: exact(x).unsqueeze(0),
    "the wrong axis": lambda x: exact(x.transpose(0, -1)).transpose(0, -1),
    "float32's rounding left in": lambda x: F.softmax(x, -1),
    "the input overwritten": in_place,
    "-inf rows give zeros": lambda x: exact(x).nan_to_num(0.0),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_an_exact_softmax_is_proven_in_every_dtype(dtype):
    rows = prove(exact, "cpu", dtype)
    assert [row["case"] for row in rows] == [case.name for case in adversarial_cases()]
    assert all(0 <= row["max_rel_err"] <= row["tolerance"] for row in rows)
    assert max(row["max_rel_err"] for row in rows) > 1e-9


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_softmax_is_refused_and_named(name):
    with pytest.raises(LabError, match=r"kernel wrong on cpu, case '.+' of shape"):
        prove(WRONG[name], "cpu", "float32", name="wrong")


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: exact(x).double(), "its dtype is float64, where float32 is right"),
        (lambda x: exact(x).unsqueeze(0), r"its shape is \(1, 5, 1\), where \(5, 1\) is right"),
        (lambda x: exact(x).nan_to_num(0.0), "it is 0.0 at row 2, where NaN is right"),
        (unshifted, "it is NaN at row 0, column 0, where 1.0 is right"),
        (lambda x: (exact(x),), r"its result is a tuple; return a plain torch\.Tensor"),
    ],
)
def test_what_has_no_relative_error_is_told_with_its_place(function, sentence):
    with pytest.raises(LabError, match=sentence):
        prove(function, "cpu", "float32", name="wrong")


def test_a_kernel_that_raises_is_named_with_its_case():
    def crash(x):
        raise RuntimeError("out of luck")

    with pytest.raises(LabError, match=r"kernel crash .*case 'random'.*RuntimeError: out of luck"):
        prove(crash, "cpu", "float32")


def test_cases_cover_the_lengths_and_layouts_that_break_kernels():
    cases = adversarial_cases()
    assert {1, 7, 600, 1000, 50257} <= {case.x.shape[-1] for case in cases}
    assert any(not case.x.is_contiguous() for case in cases)
    assert any(case.x.numel() == 0 for case in cases)
    assert {1, 2, 4} <= {case.x.dim() for case in cases}
    assert any(torch.isneginf(case.x).all(-1).any() for case in cases)


def test_cases_reach_the_kernel_with_their_strides_and_offset():
    seen = []
    prove(lambda x: seen.append((x.stride(), x.storage_offset())) or exact(x), "cpu", "bfloat16")
    assert (1, 5) in {stride for stride, _ in seen}
    assert 1 in {offset for _, offset in seen}


def test_memory_is_poisoned_inside_the_block_only():
    before = torch.are_deterministic_algorithms_enabled()
    with poisoned_memory():
        assert torch.empty(1000).isnan().all()
    assert torch.are_deterministic_algorithms_enabled() == before


@given(values=st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=30))
def test_relative_error_of_the_rounded_exact_result_is_half_an_ulp(values):
    x = torch.tensor([values])
    assert numpy_error(exact(x), x) <= 2**-24 * (1 + 1e-6)


@settings(max_examples=30)
@given(factor=st.floats(1e-5, 0.5), cols=st.integers(2, 50))
def test_relative_error_sees_one_element_off_by_a_factor(factor, cols):
    x = torch.linspace(-20, 20, cols)[None]
    result = exact(x)
    result[0, 0] *= 1 + factor
    assert numpy_error(result, x) == pytest.approx(factor, rel=0.05)


def test_given_cases_replace_the_labs():
    rows = prove(exact, "cpu", "float32", cases=[Case("tiny", torch.tensor([[0.0, 1.0]]))])
    assert [(row["case"], row["rows"], row["cols"]) for row in rows] == [("tiny", 1, 2)]


@pytest.mark.parametrize("name", ["numpy", "F.softmax"])
def test_the_references_pass_within_what_keeps_pairs_at_1e_4(name):
    rows = prove_kernel(name, None, "cpu")
    assert {row["tolerance"] for row in rows if row["dtype"] == "float32"} == {REFERENCE_TOLERANCE["float32"]}
    assert REFERENCE_TOLERANCE["float32"] + TOLERANCE["float32"] < 1e-4
