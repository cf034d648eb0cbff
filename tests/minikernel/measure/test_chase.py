"""The chain of loads goes through all of memory, and each load needs the one before."""

from itertools import pairwise

import pytest
import torch
from compiled_triton import resources
from triton.runtime.interpreter import InterpretedFunction

from minikernel.measure import ceilings
from minikernel.measure.chase import LINE, LOADS, chase, chase_kernel, links

CPU = torch.device("cpu")


def test_the_links_are_one_cycle_through_every_line_and_no_run_of_neighbours():
    cycle = links(1 << 16, CPU)
    at, seen = 0, []
    for _ in range(512):  # lines of 128 bytes in 64 KB
        seen.append(at)
        at = int(cycle[at])
    assert at == 0
    assert sorted(seen) == [LINE * line for line in range(512)]
    steps = [abs(after - before) for before, after in pairwise(seen)]
    assert sum(step == LINE for step in steps) < 10


def test_the_kernel_ends_where_that_many_links_lead_and_goes_on_from_there():
    cycle, place = links(1 << 16, CPU), torch.zeros(1, dtype=torch.int64)
    at = 0
    kernel = InterpretedFunction(chase_kernel.fn)
    for _ in range(2):
        kernel[(1,)](cycle, place, LOADS=20)
        for _ in range(20):
            at = int(cycle[at])
        assert place.item() == at


def test_it_compiles_for_a_gpu_that_is_not_here():
    types = {"links": "*i64", "place": "*i64", "LOADS": "constexpr"}
    found = resources("the chain of loads", chase_kernel, types, {"LOADS": LOADS}, {"num_warps": 1})
    assert found["registers"] <= 32  # a loop: 4,096 loads are not unrolled


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_load_takes_some_hundred_nanoseconds():
    at = torch.device("cuda", 0)
    found = ceilings.latency(at).ns
    assert 200 < found < 2000
    cycle, place = links(1 << 20, at), torch.zeros(1, dtype=torch.int64, device=at)
    chase(cycle, place)
    here, follow = 0, cycle.cpu()
    for _ in range(LOADS):
        here = int(follow[here])
    assert place.item() == here


def test_the_latency_is_that_of_one_load_and_a_cpu_has_none():
    found = ceilings.ceilings_of({"latency_ns": [ceilings.Rate(4096, [2500.0, 2457.6, 2400.0])]})
    assert found == {"latency_ns": 600.0}
    assert ceilings.ceilings_of({"latency_ns": []}) == {"latency_ns": None}
