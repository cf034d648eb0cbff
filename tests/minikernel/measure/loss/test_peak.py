"""The peak of a call on a CPU, by calls that hold a known number of bytes."""

import subprocess
import sys
import time
from pathlib import Path

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


def test_what_is_held_for_a_moment_is_seen_and_what_was_freed_before_and_is_taken_again_too():
    # in a process of its own: what many tests leave free in one, it may take without asking the kernel
    script = "import test_peak as t\nt.held(24)()\nprint(*(t.peak_mib(t.held(mib), t.CPU, 0) for mib in (8, 24, 64)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    assert [float(one) for one in done.stdout.split()] == pytest.approx([8, 24, 64], abs=2)


def test_what_is_returned_does_not_count():
    made = []
    assert peak_mib(lambda: made.append(torch.ones(16 * MIB // 4)), CPU, 16 * MIB) == pytest.approx(0, abs=2)
    assert peak_mib(lambda: time.sleep(0), CPU, 64 * MIB) == 0.0


def test_where_the_kernel_forbids_it_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setattr(peak, "CLEAR_REFS", tmp_path)  # a folder cannot be written to
    assert peak_mib(held(1), CPU, 0) is None
