"""Writes outside a kernel's output are seen wherever the memory came from, and nothing else is."""

import ctypes

import misbehaving
import pytest
import torch

from minikernel.proof.proof import Case, prove
from minikernel.proof.redzones import REDZONE_BYTES, ZONES_KEPT, Redzones
from minikernel.reasons import in_words
from minilab import LabError


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("writes_after", r"0 bytes after the end of a float32 tensor of shape \(5, 1\) that it allocated"),
        ("writes_before", r"64 bytes before the start of a float32 tensor of shape \(5, 1\) that it allocated"),
        ("writes_after_in_an_operator", r"0 bytes after the end of a float32 tensor of shape \(5, 1\)"),
        ("writes_around_its_input", "4 bytes before the start of its input"),
        ("writes_between_elements", "between the elements of its input"),
    ],
)
def test_a_write_outside_the_output_is_seen_and_placed(function: str, said: str):
    with pytest.raises(LabError, match=f"it wrote outside its output: 4 bytes changed, beginning {said}"):
        prove(getattr(misbehaving, function), "cpu", "float32", name="mine", tolerance=1e-6)


@pytest.mark.parametrize("function", ["good", "compiled"])
def test_kernels_that_keep_to_their_output_are_proven(function: str):
    assert prove(getattr(misbehaving, function), "cpu", "float32", name="mine", tolerance=1e-6)


def test_a_compiled_kernel_is_also_proven_compiled():
    compiled = []
    softmax = torch.compile(misbehaving.good, backend=lambda graph, inputs: compiled.append(graph) or graph)
    prove(softmax, "cpu", "float32", CASES, name="mine")
    assert compiled


CASES = [Case("two rows", torch.tensor([[0.0, 1.0], [2.0, 3.0]]))]


@pytest.mark.parametrize(("byte", "seen"), [(0, True), (REDZONE_BYTES - 1, True), (-1, False)])
def test_the_redzone_begins_at_the_very_end_and_reaches_as_far_as_it_says(byte: int, seen: bool):
    zones = Redzones()
    with zones:
        y = torch.empty(7, dtype=torch.bfloat16)
    ctypes.memset(y.data_ptr() + 14 + byte, 1, 1)
    assert bool(zones.damage()) == seen


def test_tensors_between_redzones_keep_shape_strides_values_and_alignment():
    with Redzones():
        y = torch.zeros(3, 5).t().clone()
        z = torch.arange(6)
    assert y.shape == (5, 3)
    assert y.stride() == torch.zeros(3, 5).t().clone().stride()
    assert y.eq(0).all()
    assert z.tolist() == [0, 1, 2, 3, 4, 5]
    assert y.storage_offset() == 0
    assert y.data_ptr() % 64 == torch.empty(15).data_ptr() % 64


def test_views_and_results_in_place_stay_what_they_are():
    with Redzones():
        y = torch.zeros(4)
        assert y.add_(1) is y
        assert y[1:].untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def test_the_input_is_watched_to_the_end_however_much_is_allocated():
    zones = Redzones()
    x = zones.input(torch.ones(4), torch.float32, "cpu")
    with zones:
        for _ in range(2 * ZONES_KEPT):
            torch.empty(4)
    ctypes.memset(x.data_ptr() - 1, 0, 1)
    assert in_words(zones.damage()).endswith("output: 1 byte changed, beginning 1 byte before the start of its input")


def test_damage_is_remembered_when_a_kernel_allocates_without_end():
    zones = Redzones()
    with zones:
        y = torch.empty(4)
        ctypes.memset(y.data_ptr() + 16, 0, 2)
        for _ in range(2 * ZONES_KEPT):
            torch.empty(4)
    assert "2 bytes changed, beginning 0 bytes after" in in_words(zones.damage())
    assert len(zones.zones) <= ZONES_KEPT
