"""The bench of a CPU: every kernel and reference in one process, in turn, beside one copy, checked again afterwards.

On a GPU each kernel has a job of its own, beside its own copy. A CPU's memory is shared with whatever else runs, so
that a copy now and a copy in a minute differ by more than kernels do: shares of two copies would contradict the times.
And what allocates its result waits for the operating system, so that F.softmax and the copy are timed once for all.
"""

import math
from collections.abc import Callable
from dataclasses import asdict

import torch

from minikernel.measure.bench import ABOVE_ROOF, REFERENCE, TOLERANCE, row_of
from minikernel.measure.ceilings import Rate
from minikernel.measure.noise import DUPLICATE, floors
from minikernel.measure.rows import BenchRow
from minikernel.measure.timing import Timing, measure, raw, rotating_inputs
from minikernel.ops.cpu.rungs import streaming_copy
from minikernel.proof.accuracy import exact_softmax, relative_error
from minikernel.reasons import Refusal, wrong
from minilab import LabError
from minilab.device import has_cpp_compiler

COPY, FRESH_COPY, STREAMING_COPY = "copy", "fresh_copy", "streaming_copy"
SAMPLED = 16  # after timing, every so many rows are checked; before it, all
ROWS_AT_ONCE = 512  # are compared: float64 copies of a large result would be fresh memory, and its page faults


class SharedBenchRow(BenchRow):
    """A row of a CPU's `bench.json`, whose noise is that of a kernel timed twice beside all."""

    duplicated: str


def bench_on_cpu(
    kernels: dict[str, Callable[[torch.Tensor], torch.Tensor]], params: dict, log: Callable[[str], None]
) -> list[SharedBenchRow]:
    """Time all kernels at every shape; rows as in `bench.json`.

    The ceiling of all rows is the copy that was timed beside the kernels at the largest shape.

    Args:
        kernels: name -> (rows, cols) tensor -> softmax over the last axis; `F.softmax` among them.
        params: shapes ([rows, cols] each), dtype, launches, warmup, seed.
        log: called with one line a kernel and shape.

    Raises:
        LabError: `F.softmax` is missing, or a kernel's result is wrong.
    """
    if REFERENCE not in kernels:
        raise LabError(
            f"{REFERENCE} is what every kernel is held against; name it under references.cpu in config.yaml."
        )
    timed = {tuple(shape): _timed(kernels, shape, params) for shape in params["shapes"]}
    # the ceiling is a copy of the largest tensor: smaller ones may lie in a cache
    largest = max(timed, key=lambda shape: shape[0] * shape[1])
    itemsize = getattr(torch, params["dtype"]).itemsize
    ceiling = Rate(2 * largest[0] * largest[1] * itemsize, timed[largest][0][COPY].samples_us)
    log(f"copy {ceiling.giga_per_s:,.1f} GB/s")
    rows = []
    for shape, (timings, errors) in timed.items():
        for name in kernels:
            row = _row(name, list(shape), timings, errors[name], params, ceiling)
            rows.append(row)
            log(
                f"{name} {shape[0]}x{shape[1]} {params['dtype']}: {row['median_us']:,.1f} us, "
                f"{row['fraction_of_copy']:.1%} of copy, {row['ratio_to_reference']:.3f} of {REFERENCE}'s time"
            )
    return rows


def _timed(kernels: dict[str, Callable], shape: list[int], params: dict) -> tuple[dict[str, Timing], dict[str, float]]:
    """The timings of all kernels and of what is timed beside them, and each kernel's largest error."""
    dtype = getattr(torch, params["dtype"])
    inputs = rotating_inputs(shape[0], shape[1], dtype, torch.device("cpu"), params["seed"])
    there = torch.empty_like(inputs[0])
    # a copy into memory that is there, one into fresh memory, one past the caches; and the reference once more
    beside: dict[str, Callable] = {COPY: there.copy_, FRESH_COPY: torch.clone, DUPLICATE: kernels[REFERENCE]}
    if has_cpp_compiler() and params["dtype"] == "float32":
        beside[STREAMING_COPY] = streaming_copy
    errors = _errors(kernels, inputs[0], params, shape)
    timings = measure({**kernels, **beside}, inputs, params["warmup"], params["launches"])
    # a sample of the rows only: float64 of all of them would take longer than the timing
    again = _errors(kernels, inputs[-1], params, shape, SAMPLED)
    return timings, {name: max(errors[name], again[name]) for name in kernels}


def _row(
    name: str, shape: list[int], timings: dict[str, Timing], error: float, params: dict, ceiling: Rate
) -> SharedBenchRow:
    figures = row_of(name, "forward", shape, getattr(torch, params["dtype"]), timings, ceiling.giga_per_s)
    # a row keeps the samples of all that it is held against, so that it can be worked out from them alone
    shown = {name, REFERENCE, COPY, FRESH_COPY, STREAMING_COPY, DUPLICATE}
    return {
        **figures,
        "above_roof": above_roof(name, timings),
        "max_rel_err": error,
        "config": None,
        "launches": params["launches"],
        "duplicated": REFERENCE,
        "noise_floor": floors(timings, REFERENCE)["noise_floor"],
        **raw({one: timings[one] for one in timings if one in shown}),
        "ceiling": asdict(ceiling),
    }


def above_roof(name: str, timings: dict[str, Timing]) -> bool:
    """Whether a kernel is faster than the fastest copy of the same bytes beside it could explain."""
    # The faster of the two: torch's copy reads what it overwrites, and a kernel that does not may beat it honestly.
    copies = [timings[copy].median_us for copy in (COPY, STREAMING_COPY) if copy in timings]
    return timings[name].median_us * ABOVE_ROOF < min(copies)


def _errors(
    kernels: dict[str, Callable], x: torch.Tensor, params: dict, shape: list[int], every: int = 1
) -> dict[str, float]:
    """Each kernel's error against float64, on every so many rows."""
    exact, tolerance = exact_softmax(x[::every].double()), TOLERANCE[params["dtype"]]
    errors = {name: _error(kernel(x)[::every], exact) for name, kernel in kernels.items()}
    for name, error in errors.items():
        if not error <= tolerance:
            at = {"code": "time", "kernel": name, "device": "cpu", "shape": list(shape), "dtype": params["dtype"]}
            raise Refusal({**wrong(error, tolerance), "at": at})
    return errors


def _error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """`relative_error` of (rows, cols) tensors, some rows at a time; infinite where the shapes differ."""
    if result.shape != exact.shape:
        return math.inf
    return max(map(relative_error, result.split(ROWS_AT_ONCE), exact.split(ROWS_AT_ONCE)))
