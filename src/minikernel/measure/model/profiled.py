"""The kernels of a forward pass that torch's profiler saw: their names, and when each began and ended."""

import re
from collections.abc import Callable
from operator import itemgetter
from typing import TypedDict

import torch
from torch.profiler import ProfilerActivity, profile

from minikernel.measure.model.clocks import wait
from minikernel.measure.model.rows import Parts

CALLS = 5  # of which the one in the middle is kept
LONGEST_NAME = 80
DIGITS = 3
# return type, anonymous namespaces, template arguments and parameters
NOISE = re.compile(r"^void |\(anonymous namespace\)::|[<(](?!anonymous).*$")  # of a C++ kernel's name


class Kernel(TypedDict):
    """A kernel, a copy or a fill on the device; times are microseconds from the first one's start."""

    name: str
    start_us: float
    duration_us: float


def kernels_of(call: Callable[[], object]) -> list[Kernel]:
    """What ran on the GPU in one call, in order; of several calls, of the one that took neither longest nor shortest.

    Raises:
        ValueError: the profiler saw nothing, or not the same number of kernels in each call.
    """
    call()
    wait()
    # without the CPU's side, which would slow the launches down that are looked at
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(CALLS):
            call()
            wait()
    seen = [
        {
            "name": short(event.name),
            "start_us": event.time_range.start,
            "duration_us": event.time_range.elapsed_us(),
        }
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return middle(seen)


def middle(seen: list[dict]) -> list[Kernel]:
    """The kernels of the call in the middle, of `CALLS` that follow one another."""
    seen = sorted(seen, key=itemgetter("start_us"))
    each = len(seen) // CALLS
    # A call's kernels are found by counting: all calls do the same, or nothing can be said.
    if not each or len(seen) % CALLS:
        raise ValueError(f"the profiler saw {len(seen)} kernels in {CALLS} calls")
    calls = [seen[place : place + each] for place in range(0, len(seen), each)]
    chosen = sorted(calls, key=length)[CALLS // 2]
    first = chosen[0]["start_us"]
    return [
        {
            "name": kernel["name"],
            "start_us": round(kernel["start_us"] - first, DIGITS),
            "duration_us": round(kernel["duration_us"], DIGITS),
        }
        for kernel in chosen
    ]


def length(kernels: list) -> float:
    """Microseconds from the first one's start to the last one's end."""
    return max(kernel["start_us"] + kernel["duration_us"] for kernel in kernels) - kernels[0]["start_us"]


def short(name: str) -> str:
    """A kernel's name without what C++ adds to it."""
    return (NOISE.sub("", name).strip() or name)[:LONGEST_NAME]


def parts_of(kernels_us: float, device_us: float) -> Parts:
    """Split the device's time of a pass into kernels and the gaps between them."""
    # Under the profiler kernels may take longer than they do without it.
    spent = min(kernels_us, device_us)
    return {
        "launches_us": device_us - spent,
        "memory_us": None,
        "arithmetic_us": None,
        "waiting_us": None,
        "kernels_us": spent,
    }
