"""Timing is fair: everybody in turn, every launch counted, inputs larger than the cache."""

import pytest
import torch

from minikernel.measure.timing import CACHE_MULTIPLE, last_level_cache_bytes, measure, rotating_inputs

CPU = torch.device("cpu")


def test_providers_take_turns_and_rotate_through_the_inputs():
    calls: list[tuple[str, int]] = []
    inputs = [torch.full((1,), float(i)) for i in range(5)]

    def provider(name):
        return lambda x: calls.append((name, int(x)))

    timings = measure({name: provider(name) for name in "abc"}, inputs, warmup=2, launches=6)
    timed = calls[6:]
    assert len(timed) == 18
    for launch in range(6):
        assert {name for name, _ in timed[3 * launch : 3 * launch + 3]} == set("abc")
    before = {name: {timed[i - 1][0] for i in range(1, 18) if timed[i][0] == name} for name in "abc"}
    assert all(len(names - {name}) == 2 for name, names in before.items()), "nobody always runs behind the same one"
    assert [x for _, x in timed] == [i % 5 for i in range(18)]
    assert all(len(timing.samples_us) == 6 for timing in timings.values())
    assert all(timing.graph_us is None for timing in timings.values())


def test_percentiles_are_in_order():
    inputs = rotating_inputs(8, 64, torch.float32, CPU, seed=0)
    timing = measure({"softmax": lambda x: torch.softmax(x, -1)}, inputs, warmup=3, launches=50)["softmax"]
    assert 0 < timing.percentile(20) <= timing.median_us <= timing.percentile(80)


@pytest.fixture
def small_cache():
    """The machine's own cache, in place of the small one that this folder's tests take."""


def test_rotating_inputs_exceed_three_times_the_cache_and_differ():
    inputs = rotating_inputs(512, 600, torch.bfloat16, CPU, seed=1)
    assert sum(x.numel() * x.element_size() for x in inputs) > CACHE_MULTIPLE * last_level_cache_bytes(CPU)
    assert inputs[0].shape == (512, 600)
    assert inputs[0].dtype == torch.bfloat16
    assert not torch.equal(inputs[0], inputs[1])
    assert torch.equal(inputs[0], rotating_inputs(512, 600, torch.bfloat16, CPU, seed=1)[0])
