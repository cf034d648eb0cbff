"""A stage's computing is summed without its waiting, and each rank's part in a bare transfer ends."""

import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.testing._internal.distributed.fake_pg import FakeStore

from minicompile.distributed.pipeline import TRANSFERS, Stretches, TimedStage, alone_seconds

CPU = torch.device("cpu")


def test_what_lies_outside_a_stretch_is_not_counted():
    busy = Stretches(CPU)
    start = time.perf_counter()
    for _ in range(2):
        with busy:
            time.sleep(0.02)
        time.sleep(0.05)
    whole = time.perf_counter() - start
    counted = busy.take()
    assert 0.04 <= counted <= whole - 0.1
    assert busy.take() == 0  # what was taken is gone


@pytest.mark.parametrize("name", ["forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk"])
def test_every_pass_of_a_stage_is_computing(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PipelineStage, name, lambda stage, number: time.sleep(0.02))
    busy = Stretches(CPU)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        getattr(TimedStage(nn.Identity(), 0, 2, CPU, busy=busy), name)(0)
    finally:
        dist.destroy_process_group()
    assert busy.take() >= 0.02


@pytest.mark.parametrize(
    ("rank", "pattern", "samples"), [(0, "tp", True), (0, "pp", True), (1, "pp", False), (2, "pp", False)]
)
def test_only_the_first_rank_returns_what_it_timed(rank: int, pattern: str, samples: bool):
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=3)
    try:
        found = alone_seconds(pattern, torch.zeros(4, 2, 3), 2)
    finally:
        dist.destroy_process_group()
    assert len(found) == (TRANSFERS if samples else 0)
    assert all(seconds > 0 for seconds in found)
