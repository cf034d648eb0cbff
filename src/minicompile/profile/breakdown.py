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
from collections import defaultdict
from collections.abc import Iterable
from typing import cast

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from minicompile.models import CapturedModel
from minicompile.profile.busy import watched
from minicompile.profile.refusal import NotProfiled
from minicompile.profile.rows import Busy, Round, TakenApart
from minicompile.profile.subject import Step, gradients, on_gpu, step, synchronise
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
from minicompile.watching.model import watched_session
from minicompile.watching.output_code import code_lines, kernel_spans
from minicompile.watching.session import fresh_dynamo, watch

WARMUP = 20  # calls before any is counted
ROUNDS = 5  # the parts are timed one after the other, several times over: a machine is seldom busy in all rounds
DIGITS = 3  # samples are kept to the nanosecond
GRAPH_PREFIX = re.compile(r"^graph_\d+_")  # Inductor puts it before a C++ kernel's name


def break_down(made: CapturedModel, samples: int) -> TakenApart:
    """Compile a model with Inductor's default mode and time the parts of a call.

    Args:
        made: a model with its inputs, on one device, a CPU or a GPU.
        samples: timed calls of each kind of measurement, in all rounds together.

    Raises:
        NotProfiled: torch.compile made no graph of the model.
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
    if not session.lowered:
        raise NotProfiled(f"torch.compile makes no graph of {made.name}; look at its capture for why.", "no_graph")
    generated = {name for one in session.lowered for name in kernel_spans(code_lines(one["code"]))}
    for found in rounds:  # the profiler saw kernels of libraries and of the device's own
        found["kernels_us"] = {kernel: taken for kernel, taken in found["kernels_us"].items() if kernel in generated}
    subject = {"name": made.name, "class": made.name, "train": made.train, "inputs": []}
    compiled = watched_session(session, subject, "cuda" if gpu else "cpu", {}, machine_code=False)
    return {"name": made.name, "on_gpu": gpu, "samples": each, "rounds": rounds, "busy": busy, "compiled": compiled}


def _by_profiler(call: Step, samples: int, on_gpu: bool) -> dict:
    """Time everything that reports to torch's profiler; on a GPU library calls as well."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as profiler:
        for _ in range(samples):
            call()
            synchronise()
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
        synchronise()

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
