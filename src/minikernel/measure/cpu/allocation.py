"""What a call runs into on a CPU: pages that are not there yet, lines of memory, the exponential.

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

from minikernel.measure.cpu.counters import COUNTED, Counters, account, counting, line_bytes
from minikernel.measure.timing import turns
from minikernel.ops.cpu.build import built
from minikernel.ops.cpu.rungs import RUNGS, function, streaming_copy
from minilab.device import has_cpp_compiler

ROUNDS, SECONDS = 5, 4.0  # calls of each way, at most; seconds after which no further round begins
DIGITS = 3  # of a microsecond: what is computed from the samples can be computed again
COUNT, PASSES, SAMPLES = 4096, 50, 9  # elements of the exponentials, two of which the nearest cache holds; how often
EXPONENTIALS = {"libm": "libm_exponential", "vector": "vector_exponential"}


@dataclass
class Calls:
    """The timed calls of one way: microseconds, and what was counted meanwhile; None where nothing counts it."""

    samples_us: list[float] = field(default_factory=list)
    page_faults: list[int] = field(default_factory=list)
    system_us: list[float] = field(default_factory=list)  # in the operating system, of all threads
    cache_misses: list[int] | None = field(default_factory=list)


@dataclass
class Exponential:
    """An exponential alone: what each sample took for each of its elements."""

    samples_ns: list[float] = field(default_factory=list)
    samples_cycles: list[float] = field(default_factory=list)


def ways_of(rows: int, cols: int) -> dict[str, Callable[[], object]]:
    """A copy and F.softmax of (rows, cols) float32, into memory that is there and into a fresh result; the rungs."""
    x = torch.rand((rows, cols))
    # zeros are written, so that its pages are there; those of `empty` would be faulted in by the first call
    there = torch.zeros_like(x)
    ways: dict[str, Callable[[], object]] = {
        "copy": lambda: there.copy_(x),
        # the same bytes with and without fresh memory: the difference is what the operating system takes
        "fresh_copy": x.clone,
        "softmax": lambda: torch.softmax(x, -1, out=there),
        "fresh_softmax": lambda: F.softmax(x, -1),
    }
    # the rungs are C++: without a compiler torch's own four ways are what there is to time
    if has_cpp_compiler():
        ways |= {name: lambda rung=rung: rung(x) for name, rung in RUNGS.items()}  # type: ignore[misc]
        ways["streaming_copy"] = lambda: streaming_copy(x)
    return ways


def measure(
    rows: int, cols: int, rounds: int = ROUNDS, seconds: float = SECONDS
) -> tuple[dict[str, Calls], dict[str, str]]:
    """Time each way in turn, after one round that does not count.

    Args:
        rounds: how many calls of each way, at most.
        seconds: after these no further round begins; at least one counts.

    Returns:
        The calls of each way, and what became of the processor's counters.
    """
    ways = ways_of(rows, cols)
    for way in ways.values():
        way()  # its threads are there, and its first memory
    calls = {name: Calls() for name in ways}
    began = time.perf_counter()
    with counting() as counters:
        for number, order in enumerate(turns(ways, rounds)):
            if number and time.perf_counter() - began > seconds:
                break
            for name in order:
                _time(ways[name], calls[name], counters)
    return calls, counters.state


def _time(way: Callable[[], object], calls: Calls, counters: Counters) -> None:
    """One call until its result is there and gone again, and what was counted meanwhile."""
    # The clock is read last before the call and first after it: what the counters cost is not the call's.
    (faults, system), missed, began = account(), counters.read()["cache_misses"], time.perf_counter_ns()
    way()
    calls.samples_us.append(round((time.perf_counter_ns() - began) / 1e3, DIGITS))
    (faults_now, system_now), missed_now = account(), counters.read()["cache_misses"]
    calls.page_faults.append(faults_now - faults)
    calls.system_us.append(round(system_now - system, DIGITS))
    if missed is None or missed_now is None:
        calls.cache_misses = None
    elif calls.cache_misses is not None:
        calls.cache_misses.append(missed_now - missed)


def exponentials() -> tuple[dict[str, Exponential], list[float]] | None:
    """The exponentials of the rungs, alone on one thread; None where there is no C++ compiler.

    Returns:
        The C library's, as `loop` calls it, and the vectors'; and the samples of the clock, in GHz, by additions that
        take a cycle each. Cycles are the processor's own count, or where it has none, time times clock.
    """
    if not has_cpp_compiler():
        return None
    # 16 KB each: both fit into a core's nearest cache, so that the exponential alone is timed
    x, y = torch.linspace(-20, 0, COUNT), torch.empty(COUNT)
    found, clock = {name: Exponential() for name in EXPONENTIALS}, []
    with counting() as counters:
        for _ in range(SAMPLES):
            # The clock is taken anew beside each sample, since a processor changes it from one moment to the next.
            ns, _ = _alone("additions", x, y, counters)
            clock.append(1 / ns)
            for name, symbol in EXPONENTIALS.items():
                ns, cycles = _alone(symbol, x, y, counters)
                found[name].samples_ns.append(ns)
                # without a counter of cycles: this sample's time by the clock that was measured beside it
                found[name].samples_cycles.append(ns * clock[-1] if cycles is None else cycles)
    return found, clock


def _alone(symbol: str, x: torch.Tensor, y: torch.Tensor, counters: Counters) -> tuple[float, float | None]:
    """Nanoseconds, and cycles where they are counted, of a function of `probe.cpp` for each element."""
    call, elements = function(symbol, "probe"), COUNT * PASSES
    # once without counting: code and data are in the caches then
    call(x.data_ptr(), y.data_ptr(), 1, COUNT, 1)
    cycles, began = counters.read()["cycles"], time.perf_counter_ns()
    call(x.data_ptr(), y.data_ptr(), PASSES, COUNT, 1)
    ns, cycles_now = time.perf_counter_ns() - began, counters.read()["cycles"]
    return ns / elements, None if cycles is None or cycles_now is None else (cycles_now - cycles) / elements


def vector_bytes() -> int:
    """Bytes of the vectors that the rungs are built with."""
    answer = torch.empty(1)
    function("vector_bytes", "probe")(answer.data_ptr(), answer.data_ptr(), 1, 1, 1)
    return int(answer.item())


def allocation(
    rows: int,
    cols: int,
    calls: dict[str, Calls],
    counters: dict[str, str],
    alone: tuple[dict[str, Exponential], list[float]] | None = None,
) -> dict:
    """What follows from the calls, as `allocation.json` has it.

    Returns:
        rows, cols, bytes of the result, of a page and of a cache's line, samples, and the medians of each way:
        microseconds, page faults, microseconds in the operating system, lines that no cache held; microseconds a page
        fault, from the two copies; null where the fresh one faulted no more than the other. `exponential` has the
        nanoseconds and cycles of an element, the medians; null without a compiler, as `build` then is.
    """
    ways: dict[str, dict[str, Any]] = {name: _medians(timed) for name, timed in calls.items()}
    there, fresh = ways["copy"], ways["fresh_copy"]
    more = fresh["page_faults"] - there["page_faults"]
    # one fault's price is the difference of two copies of the same bytes, over the faults that only one of them has
    slower = fresh["median_us"] - there["median_us"]
    return {
        "rows": rows,
        "cols": cols,
        "dtype": "float32",
        "bytes": 4 * rows * cols,
        "page_bytes": resource.getpagesize(),
        "line_bytes": line_bytes(),
        "threads": torch.get_num_threads(),
        "ways": ways,
        "page_fault_us": slower / more if more > 0 and slower > 0 else None,
        "counters": counters,
        "exponential": alone and _exponential(*alone, counters),
        "build": {"vector_bytes": vector_bytes(), "left_out": list(built("streaming").left_out)} if alone else None,
    }


def _medians(timed: Calls) -> dict[str, Any]:
    return {
        "median_us": float(np.median(timed.samples_us)),
        "page_faults": float(np.median(timed.page_faults)),
        "system_us": float(np.median(timed.system_us)),
        "cache_misses": None if timed.cache_misses is None else float(np.median(timed.cache_misses)),
        "samples_us": timed.samples_us,
        "samples_page_faults": timed.page_faults,
        "samples_system_us": timed.system_us,
        "samples_cache_misses": timed.cache_misses,
    }


def _exponential(alone: dict[str, Exponential], clock: list[float], counters: dict[str, str]) -> dict[str, Any]:
    return {
        "clock_ghz": float(np.median(clock)),
        "cycles_counted": counters["cycles"] == COUNTED,
        "of": {
            name: {
                "ns": float(np.median(one.samples_ns)),
                "cycles": float(np.median(one.samples_cycles)),
                "samples_ns": one.samples_ns,
                "samples_cycles": one.samples_cycles,
            }
            for name, one in alone.items()
        },
    }
