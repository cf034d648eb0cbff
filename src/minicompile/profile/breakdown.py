"""Breaks one compiled call down into guards, wrapper, generated kernels and library calls, each with its time.

The model is compiled once, under the capture's watch, so that names, bytes and operations of the kernels are those of
the very code that is timed. Each part is timed by itself; nothing is inferred from what the others leave over:

- guards, and the prologue that hands the tensors over: the call's time less its wrapper's, call by call;
- on a CPU, the wrapper: its time when it runs without what it calls;
- on a CPU, library calls: a clock around each; generated kernels: torch's profiler, to which Inductor's kernels report
  from within (`cpp.enable_kernel_profile`);
- on a GPU, kernels and libraries by the profiler's events of the device, the wrapper with its launches by the clock.
  The host queues what the device works off, so the two overlap and do not add up.
"""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from minicompile.lowering.captured import Graph
from minicompile.lowering.record import Record
from minicompile.models import CapturedModel
from minicompile.profile.busy import watched
from minicompile.profile.refusal import NotProfiled
from minicompile.profile.rows import Busy, Parts, Round, Split, TimedKernel, Work
from minicompile.profile.subject import Step, gradients, on_gpu, step, synchronise
from minicompile.profile.verdict import gain
from minicompile.profile.work import kernel_work, library_calls
from minicompile.torch_private.profiling import (
    COMPILE_OPTIONS,
    KERNEL_EVENTS,
    Stopwatch,
    fresh_caches,
    keeping_graphs,
    nothing_called,
    timed_graphs,
    timed_libraries,
)
from minicompile.watching.session import fresh_dynamo, watch

WARMUP = 20  # calls before any is counted
ROUNDS = 5  # the parts are timed one after the other, several times over: a machine is seldom busy in all rounds
DIGITS = 3  # samples are kept to the nanosecond
GRAPH_PREFIX = re.compile(r"^graph_\d+_")  # Inductor puts it before a C++ kernel's name


@dataclass
class Breakdown:
    """A compiled call's parts, times in microseconds: medians over `samples` calls, in the quietest of five rounds.

    Attributes:
        graphs: the captured graphs, as schemas/capture.schema.yaml describes them.
        call_us: the whole call; on a GPU until the device is done.
        guards_us: what of it lies outside the wrapper.
        wrapper_us: the wrapper without what it calls; on a GPU with the launches.
        kernels_us: by generated kernel, one call of it.
        libraries_us: by library call, in their order within the model's call.
        rounds: every sample of each of these, a list in place of each time.
        busy: what else the machine did in these rounds.
    """

    graphs: list[Graph]
    on_gpu: bool
    samples: int
    call_us: float
    guards_us: float
    wrapper_us: float
    kernels_us: dict[str, float]
    libraries_us: list[float]
    rounds: list[Round]
    busy: Busy

    def split(self) -> Split:
        """Divide the call's time among its parts.

        Returns:
            `call_us`, and of it `guards_us`, `wrapper_us`, `kernels_us`, `libraries_us`; `rest_us`, which none of them
            explains (handing arguments to C++, and whatever interrupted the calls); it is None where `overlapping`,
            on a GPU, as the first two are the host's and the others the device's.
        """
        calls = {row["name"]: row["calls"] for row in kernel_work(self.graphs)}
        return split(quietest(self.rounds), calls, self.samples, self.on_gpu)

    def kernels(self, copy_gb_per_s: float) -> list[TimedKernel]:
        """Return a row for each generated kernel: `kernel_work`'s, with its time, bandwidth and share of the call."""
        return [timed(row, self.rounds, copy_gb_per_s) for row in kernel_work(self.graphs)]


def split(parts: Parts, calls: dict[str, int], samples: int, on_gpu: bool) -> Split:
    """Compute `Breakdown.split` from the parts that `quietest` gives and how often each kernel is called."""
    kernels = sum(times * parts["kernels_us"][name] for name, times in calls.items())
    libraries = sum(parts["libraries_us"])
    rest = parts["call_us"] - parts["guards_us"] - parts["wrapper_us"] - kernels - libraries
    return {
        "samples": samples,
        "overlapping": on_gpu,
        "call_us": parts["call_us"],
        "guards_us": parts["guards_us"],
        "wrapper_us": parts["wrapper_us"],
        "kernels_us": kernels,
        "libraries_us": libraries,
        "rest_us": None if on_gpu else rest,
    }


def timed(row: Work, rounds: list[Round], copy_gb_per_s: float) -> TimedKernel:
    """Add to a row of `kernel_work` what follows from its kernel's time."""
    parts = quietest(rounds)
    median_us = parts["kernels_us"][row["name"]]
    gb_per_s = row["bytes"] / median_us / 1e3
    return {
        **row,
        "median_us": median_us,
        "noise": between_rounds([statistics.median(one["kernels_us"][row["name"]]) for one in rounds]),
        "gb_per_s": gb_per_s,
        "tflop_per_s": row["flop"] / median_us / 1e6,
        "fraction_of_copy": gb_per_s / copy_gb_per_s,
        "flop_per_byte": row["flop"] / row["bytes"],
        "share_of_call": row["calls"] * median_us / parts["call_us"],
    }


def between_rounds(medians: list[float]) -> float:
    """How far the two quietest rounds of a kernel lie apart, a gain: it is the noise of the least of them."""
    least, *others = sorted(medians)
    return abs(gain(least, others[0])) if others else 0.0


def break_down(made: CapturedModel, samples: int) -> Breakdown:
    """Compile a model with Inductor's default mode and time the parts of a call.

    Args:
        made: a model with its inputs, on one device, a CPU or a GPU.
        samples: timed calls of each kind of measurement, in all rounds together.

    Raises:
        NotProfiled: torch.compile made no graph of the model, or a kernel or library call of it could not be timed.
    """
    gpu, each = on_gpu(made), max(1, samples // ROUNDS)
    rounds: list[Round] = []

    def run(call: Step) -> Busy:
        with gradients(made):
            with keeping_graphs() as graphs:
                call()
            for _ in range(WARMUP):
                call()
            with watched() as busy:
                for _ in range(ROUNDS):
                    found = _by_profiler(call, each, gpu)
                    clocked = _by_clock(call, graphs, found["kernels_us"], each, gpu)
                    rounds.append(cast(Round, {**found, **clocked}))  # the clock's library calls, where it has them
        return busy

    with fresh_caches(), fresh_dynamo(), watch() as session:
        options = {**(made.options or {}), **COMPILE_OPTIONS, **KERNEL_EVENTS}
        busy = run(step(made, torch.compile(made.module, dynamic=made.dynamic, options=options)))
    graphs = Record(session).graphs
    _check(made.name, graphs, rounds)
    return Breakdown(graphs=graphs, on_gpu=gpu, samples=each, rounds=rounds, busy=busy, **quietest(rounds))


def _check(name: str, graphs: list[Graph], rounds: list[Round]) -> None:
    """Drop what the profiler saw of other kernels from the rounds, and refuse a model of which they lack something."""
    if not graphs:
        raise NotProfiled(f"torch.compile makes no graph of {name}; look at its capture for why.", "no_graph")
    work = kernel_work(graphs)
    twice = [kernel for kernel, count in Counter(row["name"] for row in work).items() if count > 1]
    if twice:
        names = ", ".join(twice)
        raise NotProfiled(
            f"several graphs of {name} have a kernel {names}; times go by name.", "same_name", names=names
        )
    generated = {row["name"] for row in work}
    for found in rounds:
        found["kernels_us"] = {kernel: taken for kernel, taken in found["kernels_us"].items() if kernel in generated}
    missing = set().union(*(generated - found["kernels_us"].keys() for found in rounds))
    libraries = library_calls(graphs)
    if any(len(found["libraries_us"]) != len(libraries) for found in rounds):
        missing |= {call["name"] for call in libraries} or {"what runs between the graphs"}
    if missing:
        names = ", ".join(sorted(missing))
        raise NotProfiled(
            f"the profile of {name} found no time for {names}; report this with the installed torch's version.",
            "no_time", names=names,
        )  # fmt: skip


def quietest(rounds: list[Round]) -> Parts:
    """Take, for each part, the round in which the median of its samples is least."""

    def least(samples: Iterable[list[float]]) -> float:
        return min(map(statistics.median, samples))

    libraries = zip(*(one["libraries_us"] for one in rounds), strict=True)
    return {
        "call_us": least(one["call_us"] for one in rounds),
        "guards_us": least(one["guards_us"] for one in rounds),
        "wrapper_us": least(one["wrapper_us"] for one in rounds),
        "kernels_us": {name: least(one["kernels_us"][name] for one in rounds) for name in rounds[0]["kernels_us"]},
        "libraries_us": [least(call) for call in libraries],
    }


def _by_profiler(call: Step, samples: int, on_gpu: bool) -> dict:
    """Time everything that reports to torch's profiler; on a GPU library calls as well."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as profiler:
        for _ in range(samples):
            call()
            synchronise(on_gpu)
    events = profiler.events()
    durations = defaultdict(list)
    for event in events:
        if event.device_type == (DeviceType.CUDA if on_gpu else DeviceType.CPU):
            durations[GRAPH_PREFIX.sub("", event.name)].append(round(event.time_range.elapsed_us(), DIGITS))
    libraries = [event.device_time_total for event in events if _is_library_call(event)]
    return {"kernels_us": dict(durations), "libraries_us": _by_place(libraries, samples)}


def _by_clock(compiled: Step, graphs: list, kernels: Iterable[str], samples: int, on_gpu: bool) -> dict:
    """Time the call, what of it lies outside the wrapper, and the wrapper; on a CPU library calls as well.

    On a CPU the wrapper is timed without what it calls.

    The measurements take turns, so that whatever else the machine does disturbs all alike.
    """
    whole, call, graph, wrapper, libraries = (Stopwatch() for _ in range(5))
    until_return = call.around(compiled)

    def call_and_wait() -> None:
        until_return()
        synchronise(on_gpu)

    until_done = whole.around(call_and_wait)
    results: dict = {}
    for _ in range(samples):
        with timed_graphs(graphs, graph):
            until_done()
        if not on_gpu:
            with timed_libraries(graphs, libraries):
                compiled()
            with nothing_called(graphs, kernels, results), timed_graphs(graphs, wrapper):
                compiled()
    graph_us = _sums(graph.samples_us, samples)
    outside = [call_us - inside_us for call_us, inside_us in zip(call.samples_us, graph_us, strict=True)]
    return {
        "call_us": whole.samples_us,
        "guards_us": [round(us, DIGITS) for us in outside],
        "wrapper_us": graph_us if on_gpu else _sums(wrapper.samples_us, samples),
        **({} if on_gpu else {"libraries_us": _by_place(libraries.samples_us, samples)}),
    }


def _is_library_call(event) -> bool:
    """Say whether an event is an operator that the wrapper calls itself, and that gives the device something to do."""
    outermost = event.cpu_parent is None or not event.cpu_parent.name.startswith("aten::")
    on_host = event.device_type == DeviceType.CPU
    return on_host and outermost and event.name.startswith("aten::") and event.device_time_total > 0


def _by_place(values: list[float], calls: int) -> list[list[float]]:
    """Sort samples by their place in a call, where each of `calls` calls gave as many."""
    each = len(values) // calls
    return [[round(us, DIGITS) for us in values[place::each]] for place in range(each)]


def _sums(values: list[float], calls: int) -> list[float]:
    """Sum what each of `calls` calls took in all its graphs together."""
    each = len(values) // calls
    return [round(sum(values[start : start + each]), DIGITS) for start in range(0, len(values), each)]
