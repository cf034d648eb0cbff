"""What a fresh result costs on a CPU: a copy and F.softmax into memory that is there, and into memory that is not yet.

A process is given memory page by page: the first write to a page stops it (a minor page fault) until the kernel of the
operating system has found a page and filled it with zeros. A large tensor's memory goes back when the tensor dies, so a
function that returns its result pays this on each call; a copy into memory that is there does not.
"""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from minikernel.measure.timing import turns

ROUNDS, SECONDS = 5, 2.0  # calls of each way, at most; seconds after which no further round begins
DIGITS = 3  # of a microsecond: what is computed from the samples can be computed again


@dataclass
class Calls:
    """The timed calls of one way: microseconds, and how many pages each was given."""

    samples_us: list[float] = field(default_factory=list)
    page_faults: list[int] = field(default_factory=list)


def ways_of(rows: int, cols: int) -> dict[str, Callable[[], object]]:
    """A copy and F.softmax of a (rows, cols) float32 tensor, each into memory that is there and into a fresh result."""
    x = torch.rand((rows, cols))
    there = torch.zeros_like(x)
    return {
        "copy": lambda: there.copy_(x),
        "fresh_copy": x.clone,
        "softmax": lambda: torch.softmax(x, -1, out=there),
        "fresh_softmax": lambda: F.softmax(x, -1),
    }


def measure(rows: int, cols: int, rounds: int = ROUNDS, seconds: float = SECONDS) -> dict[str, Calls]:
    """Time each way in turn, after one round that does not count.

    Args:
        rounds: how many calls of each way, at most.
        seconds: after these no further round begins; at least one counts.
    """
    ways = ways_of(rows, cols)
    calls = {name: Calls() for name in ways}
    began = time.perf_counter()
    for number, order in enumerate(turns(ways, rounds + 1)):
        if number > 1 and time.perf_counter() - began > seconds:
            break
        for name in order:
            us, faults = _timed(ways[name])
            if number:
                calls[name].samples_us.append(us)
                calls[name].page_faults.append(faults)
    return calls


def _timed(function: Callable[[], object]) -> tuple[float, int]:
    """One call: microseconds until its result is there and gone again, and the page faults in it."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter_ns()
    function()
    us = round((time.perf_counter_ns() - began) / 1e3, DIGITS)
    return us, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def allocation(rows: int, cols: int, calls: dict[str, Calls]) -> dict:
    """What follows from the calls, as `allocation.json` has it.

    Returns:
        rows, cols, bytes of the result and of a page, samples, and the median microseconds and page faults of each way;
        microseconds a page fault, from the two copies; null where the fresh one faulted no more than the other.
    """
    ways: dict[str, dict[str, Any]] = {
        name: {
            "median_us": float(np.median(timed.samples_us)),
            "page_faults": float(np.median(timed.page_faults)),
            "samples_us": timed.samples_us,
            "samples_page_faults": timed.page_faults,
        }
        for name, timed in calls.items()
    }
    there, fresh = ways["copy"], ways["fresh_copy"]
    more = fresh["page_faults"] - there["page_faults"]
    slower = fresh["median_us"] - there["median_us"]
    return {
        "rows": rows,
        "cols": cols,
        "dtype": "float32",
        "bytes": 4 * rows * cols,
        "page_bytes": resource.getpagesize(),
        "ways": ways,
        "page_fault_us": slower / more if more > 0 and slower > 0 else None,
    }
