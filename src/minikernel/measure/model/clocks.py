"""Two clocks for a forward pass: the device's, which the host never keeps waiting, and a call's as a user sees it.

All sides take turns, in an order that is shuffled for each round, first under the one clock and then under the other.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from minikernel.measure.timing import turns

DIGITS = 3  # samples are kept to the nanosecond
SHORTEST_SPIN_US = 50.0
SPIN_MARGIN = 1.5  # times what the host takes to queue a call: the device waits that long before it
# long enough that the events' own microseconds are nothing beside it
RATE_CYCLES = 20_000_000  # 10 ms at 2 GHz
HOST_CALLS = 5


@dataclass
class Side:
    """What is timed.

    Attributes:
        call: as a user calls it.
        queued: what the device's clock is read around: `call`, or the replay of a CUDA graph of it.
        in_graph: whether it is the latter.
    """

    call: Callable[[], object]
    queued: Callable[[], object]
    in_graph: bool = False


@dataclass
class Clocked:
    """Every sample of a side, in microseconds."""

    device_us: list[float] = field(default_factory=list)
    wall_us: list[float] = field(default_factory=list)


def captured(call: Callable[[], object]) -> Callable[[], None]:
    """The replay of a CUDA graph that holds one call."""
    call()
    # compiled, loaded and packed before the capture, in which nothing may wait for the device
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    # once, so that the first replay that is timed finds the graph on the device
    graph.replay()
    return graph.replay


def cycles_per_us(device: torch.device) -> float:
    """Cycles of a multiprocessor's clock in a microsecond, while it has work; 0 on a CPU."""
    if device.type != "cuda":
        return 0.0
    # the fastest of three: before it has work to do, a GPU clocks lower
    rates = []
    for _ in range(3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.cuda._sleep(RATE_CYCLES)
        end.record()
        torch.cuda.synchronize()
        rates.append(RATE_CYCLES / (start.elapsed_time(end) * 1e3))
    return max(rates)


def clock(sides: dict[str, Side], calls: int, warmup: int, rate: float) -> dict[str, Clocked]:
    """Time every side `calls` times under each clock, after `warmup` calls.

    On a CPU both clocks are the wall's.

    Args:
        rate: `cycles_per_us` of the device; 0 on a CPU.
    """
    found = {name: Clocked() for name in sides}
    for side in sides.values():
        for _ in range(warmup):
            side.call()
    wait()
    if rate:
        for name, samples in _on_device(sides, calls, rate).items():
            found[name].device_us = samples
    for order in turns(sides, calls):
        for name in order:
            found[name].wall_us.append(wall_us(sides[name].call))
    if not rate:
        for clocked in found.values():
            clocked.device_us = list(clocked.wall_us)
    return found


def _on_device(sides: dict[str, Side], calls: int, rate: float) -> dict[str, list[float]]:
    """Each call lies between two events, behind a spin that lasts longer than the host takes to queue it."""
    # A spin for each side by what its own call takes to queue: 50 us at least, 1.5 times as long as the host needs.
    spins = {name: round(rate * max(SHORTEST_SPIN_US, SPIN_MARGIN * _host_us(side))) for name, side in sides.items()}
    events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
    for order in turns(sides, calls):
        for name in order:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(spins[name])
            start.record()
            sides[name].queued()
            end.record()
            events.append((name, start, end))
    torch.cuda.synchronize()
    found: dict[str, list[float]] = {name: [] for name in sides}
    for name, start, end in events:
        found[name].append(round(start.elapsed_time(end) * 1e3, DIGITS))
    return found


def _host_us(side: Side) -> float:
    """What the host takes to queue a call."""
    # the median: the first call may find the processor's caches cold
    taken = []
    for _ in range(HOST_CALLS):
        wait()
        began = time.perf_counter_ns()
        side.queued()
        taken.append((time.perf_counter_ns() - began) / 1e3)
    wait()
    return statistics.median(taken)


def wall_us(call: Callable[[], object]) -> float:
    """Microseconds of a call as a user sees it, until the device has done its work."""
    wait()
    began = time.perf_counter_ns()
    call()
    wait()
    return round((time.perf_counter_ns() - began) / 1e3, DIGITS)


def wait() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
