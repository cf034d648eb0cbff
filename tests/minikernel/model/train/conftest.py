"""What the tests of the training share: the emulator in place of a GPU of three blocks."""

from types import SimpleNamespace

import emulator
import pytest
import torch
from emulated_gpu import EmulatedGpu
from trained_in_one import BLOCKS

from minikernel.model.train import graph, launch
from minikernel.ops import softmax_cuda


@pytest.fixture
def gpu(monkeypatch):
    if emulator.COMPILER is None:
        pytest.skip("needs g++")
    made = EmulatedGpu(monkeypatch)
    event = SimpleNamespace(
        record=lambda: None, query=lambda: True, synchronize=lambda: None, elapsed_time=lambda other: 1500.0
    )
    monkeypatch.setattr(launch, "_check_place", lambda model: -1)
    monkeypatch.setattr(launch, "_events", lambda: (event, event))
    monkeypatch.setattr(launch, "_wait_for_stream", lambda gpu: None)
    monkeypatch.setattr(launch, "_shared_with_host", lambda: torch.zeros(2, dtype=torch.int32))
    monkeypatch.setattr(launch, "compiled_with", made.compiled_with)
    monkeypatch.setattr(softmax_cuda, "multiprocessors", lambda device: BLOCKS)
    monkeypatch.setattr(softmax_cuda, "largest_shared_bytes", lambda device: 232448)
    # graphs: nothing is captured, so that a replay is the launches themselves
    monkeypatch.setattr(graph, "_captured", lambda launches: launches)
    monkeypatch.setattr(graph, "_event", lambda: event)
    monkeypatch.setattr(graph, "_device", lambda gpu: "cpu")
    return made
