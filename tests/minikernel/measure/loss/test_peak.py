"""The peak of a call on a CPU, by calls that hold a known number of bytes."""

import time

import pytest
import torch

from minikernel.measure.loss import peak
from minikernel.measure.loss.peak import MIB, peak_mib

CPU = torch.device("cpu")


def held(mib: int):
    """A call that holds so much for a moment, and nothing afterwards."""

    def call():
        block = torch.ones(mib * MIB // 4)
        return block.sum()

    return call


def test_what_is_held_for_a_moment_is_seen():
    for mib in (8, 64):
        assert peak_mib(held(mib), CPU, 0) == pytest.approx(mib, abs=2)


def test_memory_that_was_freed_and_is_taken_again_counts():
    held(24)()  # the allocator may keep it
    assert peak_mib(held(24), CPU, 0) == pytest.approx(24, abs=2)


def test_what_is_returned_does_not_count():
    made = []
    assert peak_mib(lambda: made.append(torch.ones(16 * MIB // 4)), CPU, 16 * MIB) == pytest.approx(0, abs=2)
    assert peak_mib(lambda: time.sleep(0), CPU, 64 * MIB) == 0.0


def test_where_the_kernel_forbids_it_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(peak, "CLEAR_REFS", tmp_path)  # a folder cannot be written to
    assert peak_mib(held(1), CPU, 0) is None
