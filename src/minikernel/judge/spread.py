"""Many calls at once, in the process of a kernel: inputs out of a seed, calls or a graph of them, and what binds it.

The inputs are made when the seed comes, so that nothing can be worked out before; a digest of each row of each result
is given with the answer, so that nothing can be worked out later: the rows that the judge then asks for must be those.
"""

import time
from collections.abc import Callable
from typing import Any

import torch

SPIN_CYCLES = 200_000  # as in minikernel.measure.timing, for each call: longer than the host takes to queue it


class Spread:
    """Inputs on the device, and what a kernel makes of them.

    Args:
        count: of inputs.
        shape, dtype, device: each one's.
    """

    def __init__(self, count: int, shape: list[int], dtype: str, device: torch.device) -> None:
        self.device = device
        self.inputs = torch.empty((count, *shape), dtype=getattr(torch, dtype), device=device).unbind()
        self.results: list[Any] = []
        self.graphs: dict[str, tuple[torch.cuda.CUDAGraph, list[Any]]] = {}

    def capture(self, name: str, function: Callable) -> None:
        """Capture a graph of a call on each input."""
        self.results = []
        torch.cuda.empty_cache()  # a graph has memory of its own
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = [function(x) for x in self.inputs]
        self.graphs[name] = graph, results

    def run(self, seed: int, function: Callable | None, name: str) -> float:
        """Fill the inputs and call the function on each, or replay the graph that was captured under the name.

        Returns:
            The microseconds of a call, by this process's own clock.
        """
        fill(self.inputs, seed)
        # what the host takes to queue the calls lies within the spin, as it does where each is timed by itself
        calls = 1 if function is None else len(self.inputs)
        clock = clock_on(self.device, calls)
        if function is None:
            graph, self.results = self.graphs[name]
            graph.replay()
        else:
            self.results = [function(x) for x in self.inputs]
        return clock.microseconds() / len(self.inputs)

    def digests(self, seed: int) -> torch.Tensor:
        """A digest of each row of each result: (inputs, rows) in int64."""
        weights = weights_of(seed, self.inputs[0].shape[-1]).to(self.device)
        return torch.stack([digest(result, weights) for result in self.results])

    @torch.inference_mode()  # in which what was made under it may be written as well
    def shown(self, rows: list[list[int]]) -> torch.Tensor:
        """Those rows of each result; then results and inputs hold NaN, so that none is right by what it held before."""
        shown = torch.stack(
            [result.reshape(-1, result.shape[-1])[at] for result, at in zip(self.results, rows, strict=True)]
        )
        for held in (*self.inputs, *self.results):
            held.detach().fill_(torch.nan)
        self.results = []
        return shown


def fill(inputs: tuple[torch.Tensor, ...], seed: int) -> None:
    """Random numbers, the same for the same seed on the same device."""
    generator = torch.Generator(inputs[0].device).manual_seed(seed)
    for x in inputs:
        x.normal_(generator=generator)


def weights_of(seed: int, cols: int) -> torch.Tensor:
    """What each column of a digest is multiplied with: odd, so that each bit of an element counts."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(-(1 << 31), 1 << 31, (cols,), generator=generator) | 1).to(torch.int32)


def digest(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """A number of each row's bits, in int64: what one has to have computed to know it."""
    whole = torch.int32 if rows.dtype.itemsize == 4 else torch.int16
    # the product wraps
    return (rows.contiguous().view(whole).to(torch.int32) * weights).sum(-1, dtype=torch.int64)


def clock_on(device: torch.device, calls: int) -> "HostClock | DeviceClock":
    """A clock that begins now, for so many calls on a device."""
    return DeviceClock(calls) if device.type == "cuda" else HostClock()


class HostClock:
    """On a CPU a call is over when it returns."""

    def __init__(self) -> None:
        self.began = time.perf_counter_ns()

    def microseconds(self) -> float:
        return (time.perf_counter_ns() - self.began) / 1e3


class DeviceClock:
    """Events behind a spin."""

    def __init__(self, calls: int) -> None:
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(SPIN_CYCLES * calls)
        self.start.record()

    def microseconds(self) -> float:
        self.end.record()
        torch.cuda.synchronize()
        return self.start.elapsed_time(self.end) * 1e3
