"""Honest timing of row kernels: interleaved, cold, in event time and in CUDA-graph time.

The rules are those of DESIGN's Timing section, learned from Triton's `do_bench`, Helion and KernelBench:
providers take turns, so that a drifting clock hurts all alike; each launch reads another buffer of a
set that exceeds three times the last-level cache; the medians of a duplicate show the noise floor.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from minikernel.measure.rows import RawSamples

CACHE_MULTIPLE = 3
SPIN_CYCLES = 200_000  # 100 microseconds at 2 GHz: longer than the host takes to queue any provider's launch
# of a graph: enough to make the time between two replays a small part
GRAPH_LAUNCHES = 20
DIGITS = 3  # samples are kept to the nanosecond: what is computed from them can be computed again from a record
Provider = Callable[..., Any]  # takes one of the inputs


@dataclass
class Timing:
    """One provider's launches at one shape, in microseconds."""

    samples_us: list[float] = field(default_factory=list)
    graph_samples_us: list[float] = field(default_factory=list)

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.samples_us, percent))

    @property
    def median_us(self) -> float:
        return float(np.median(self.samples_us))

    @property
    def graph_us(self) -> float | None:
        """Median time of one launch inside a CUDA graph; None where there are no CUDA graphs."""
        return float(np.median(self.graph_samples_us)) if self.graph_samples_us else None


def raw(timings: dict[str, Timing]) -> RawSamples:
    """Every launch of each provider, as the rows of an artefact keep them; no graphs on a CPU."""
    graphs = {name: timing.graph_samples_us for name, timing in timings.items() if timing.graph_samples_us}
    return {"samples_us": {name: timing.samples_us for name, timing in timings.items()}, "graph_samples_us": graphs}


def timings_of(rows: Sequence[RawSamples | dict]) -> dict[str, Timing]:
    """The timings that lie raw in rows of one process and place; the inverse of `raw`."""
    samples = {name: taken for row in rows for name, taken in row["samples_us"].items()}
    graphs = {name: taken for row in rows for name, taken in row["graph_samples_us"].items()}
    return {name: Timing(taken, graphs.get(name, [])) for name, taken in samples.items()}


def last_level_cache_bytes(device: torch.device) -> int:
    """Bytes of a GPU's L2, or of the largest cache that a CPU core sees."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).L2_cache_size
    # a virtual machine may hide its caches: 32 MB then, large enough for most
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((int(size.read_text().strip().rstrip("K")) * 1024 for size in sizes), default=32 << 20)


def rotating_inputs(rows: int, cols: int, dtype: torch.dtype, device: torch.device, seed: int) -> list[torch.Tensor]:
    """Random (rows, cols) tensors, as many as together exceed three times the last-level cache."""
    bytes_each = rows * cols * dtype.itemsize
    # One more than three caches' worth, at least two: the input of a launch is never the last one's.
    copies = -(-CACHE_MULTIPLE * last_level_cache_bytes(device) // bytes_each) + 1
    generator = torch.Generator(device).manual_seed(seed)
    slab = torch.randn((copies, rows, cols), generator=generator, device=device, dtype=torch.float32)
    return list(slab.to(dtype).unbind())


def measure(providers: dict[str, Provider], inputs: list, warmup: int, launches: int) -> dict[str, Timing]:
    """Time every provider on the rotating `inputs`, in turn, `launches` times after `warmup` calls.

    An input is a tensor, or a tuple of tensors where providers take several. On CUDA each launch lies
    between two events, queued behind a short spin so that the host is never what is waited for; then each
    provider is captured into a CUDA graph of several launches and the graphs are replayed in turn. On a CPU
    the wall clock is read around each call.
    """
    first = inputs[0][0] if isinstance(inputs[0], tuple) else inputs[0]
    on_cuda = first.is_cuda
    timings = {name: Timing() for name in providers}
    # Everything is compiled, loaded and allocated before the first launch that counts.
    for function in providers.values():
        for i in range(warmup):
            function(inputs[i % len(inputs)])
    _measure_launches(providers, inputs, launches, timings, on_cuda)
    if on_cuda:
        _measure_graphs(providers, inputs, launches, timings)
    return timings


def turns(names: Iterable[str], rounds: int) -> Iterator[list[str]]:
    """The order of each round: shuffled, the same in every run.

    Who runs behind a kernel that leaves the cache full of unwritten results pays for it, a microsecond on an H200; in
    a fixed or rotated order that would always be the same one.
    """
    names, shuffled = list(names), random.Random(0)
    for _ in range(rounds):
        yield shuffled.sample(names, len(names))


def _measure_launches(
    providers: dict[str, Provider],
    inputs: list,
    launches: int,
    timings: dict[str, Timing],
    on_cuda: bool,
) -> None:
    # Events are kept and read after the last launch, so that the host never waits in between.
    events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
    turn = 0
    for order in turns(providers, launches):
        for name in order:
            # one input further at each launch, whoever makes it: nobody reads what was just read
            x = inputs[turn % len(inputs)]
            turn += 1
            if on_cuda:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                # The device spins while the host queues both events and the
                # launch: what lies between the events is the device's work alone.
                torch.cuda._sleep(SPIN_CYCLES)
                start.record()
                providers[name](x)
                end.record()
                events.append((name, start, end))
            else:
                # On a CPU a call is over when it returns: nothing is queued.
                began = time.perf_counter_ns()
                providers[name](x)
                timings[name].samples_us.append(round((time.perf_counter_ns() - began) / 1e3, DIGITS))
    if on_cuda:
        # One wait at the end: in each turn it would leave the GPU idle between launches.
        torch.cuda.synchronize()
        for name, start, end in events:
            timings[name].samples_us.append(round(start.elapsed_time(end) * 1e3, DIGITS))


def _measure_graphs(providers: dict[str, Provider], inputs: list, launches: int, timings: dict[str, Timing]) -> None:
    graphs = {}
    for name, function in providers.items():
        # The buffers rotate inside the graph too, as many as it has launches; of small ones all may stay in the cache.
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(GRAPH_LAUNCHES):
                function(inputs[i % len(inputs)])
        graph.replay()
        graphs[name] = graph
    # each replay is 20 launches, so that far fewer give as many samples
    replays = max(5, launches // GRAPH_LAUNCHES)
    events = []
    for order in turns(graphs, replays):
        for name in order:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SPIN_CYCLES)
            start.record()
            graphs[name].replay()
            end.record()
            events.append((name, start, end))
    torch.cuda.synchronize()
    for name, start, end in events:
        timings[name].graph_samples_us.append(round(start.elapsed_time(end) * 1e3 / GRAPH_LAUNCHES, DIGITS))
