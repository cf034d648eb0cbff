"""The bench of one kernel: interleaved with F.softmax and with a copy, checked again after timing."""

from collections.abc import Callable
from dataclasses import asdict

import torch
import torch.nn.functional as F

from minikernel.measure.ceilings import Rate, large_copy
from minikernel.measure.cost import softmax_bytes, softmax_flop
from minikernel.measure.noise import DUPLICATE, floors
from minikernel.measure.rows import BenchRow, SoftmaxFigures
from minikernel.measure.timing import Timing, measure, raw, rotating_inputs
from minikernel.proof.accuracy import softmax_error
from minikernel.reasons import Place, Refusal, wrong

REFERENCE = "F.softmax"
# On the bench's own inputs, normal random rows, on which every kernel measured lies below 7e-7 in float32; the
# proof holds them to its bounds on adversarial ones.
TOLERANCE = {"float32": 2e-6, "bfloat16": 2**-8, "float16": 2**-10}
ABOVE_ROOF = 1.15  # no kernel beats a plain copy by this much honestly


def bench_kernel(
    name: str,
    softmax: Callable[..., torch.Tensor],
    config_for: Callable[[int, int], dict | None],
    params: dict,
    torch_device: str,
    log: Callable[[str], None],
) -> list[BenchRow]:
    """Time one kernel at every shape; rows as in `bench.json`.

    Args:
        name: the kernel's name in the rows.
        softmax: (rows, cols) tensor -> softmax over the last axis; takes `config=` where it is tuned.
        config_for: (rows, cols) -> the tracked autotune choice, or None.
        params: shapes ([rows, cols] each), dtype, launches, warmup, seed.
        torch_device: `cpu` or `cuda:N`.
        log: called with one line a shape.

    Raises:
        LabError: the kernel's result is wrong.
    """
    device, dtype = torch.device(torch_device), getattr(torch, params["dtype"])
    # In this process, for this kernel: clocks and temperature of another job say nothing about this one.
    ceiling = large_copy(device)
    log(f"{name}: copy ceiling {ceiling.giga_per_s:,.0f} GB/s")
    rows = []
    for shape in params["shapes"]:
        at: Place = {"code": "time", "kernel": name, "device": torch_device}
        at |= {"shape": list(shape), "dtype": params["dtype"]}
        row = _bench_shape(name, at, softmax, config_for(*shape), shape, dtype, params, device, ceiling)
        rows.append(row)
        log(
            f"{name} {shape[0]}x{shape[1]} {params['dtype']}: {row['median_us']:,.1f} us, "
            f"{row['fraction_of_copy']:.1%} of copy, {row['ratio_to_reference']:.3f} of {REFERENCE}'s time"
        )
    return rows


def _bench_shape(
    name: str,
    at: Place,
    softmax: Callable[..., torch.Tensor],
    config: dict | None,
    shape: list[int],
    dtype: torch.dtype,
    params: dict,
    device: torch.device,
    ceiling: Rate,
) -> BenchRow:
    n_rows, n_cols = shape
    inputs = rotating_inputs(n_rows, n_cols, dtype, device, params["seed"])
    kernel = softmax if config is None else lambda x: softmax(x, config=config)
    # the copy writes to one place, as a kernel's result is written to memory that the allocator gives back again
    target = torch.empty_like(inputs[0])
    # The kernel twice: how far its two medians lie apart is the noise floor of the row.
    providers: dict[str, Callable] = {name: kernel, DUPLICATE: kernel, "copy": target.copy_}
    # the reference's own bench needs no second one of itself
    if name != REFERENCE:
        providers[REFERENCE] = lambda x: F.softmax(x, -1)
    # Right before the timing and right after it, on another input: a
    # kernel that is fast by doing nothing the second time is found out.
    error = _checked_error(at, kernel, inputs[0])
    timings = measure(providers, inputs, params["warmup"], params["launches"])
    error = max(error, _checked_error(at, kernel, inputs[-1]))

    return {
        **row_of(name, "forward", shape, dtype, timings, ceiling.giga_per_s),
        "max_rel_err": error,
        "config": config,
        "launches": params["launches"],
        "noise_floor": floors(timings, name)["noise_floor"],
        **raw(timings),
        "ceiling": asdict(ceiling),
    }


def row_of(
    name: str, direction: str, shape: list[int], dtype: torch.dtype, timings: dict[str, Timing], ceiling: float
) -> SoftmaxFigures:
    """The part of a row of `bench.json` that follows from the timings of one shape.

    Args:
        name: the provider that the row is about.
        direction: `forward` or `backward`.
        shape: [rows, cols].
        timings: of every provider in the same process, `F.softmax` and `copy` among them.
        ceiling: bandwidth of a large copy in the same process, GB/s.
    """
    n_rows, n_cols = shape
    timing, reference, copy = timings[name], timings[REFERENCE], timings["copy"]
    moved = softmax_bytes(n_rows, n_cols, dtype.itemsize, direction)
    flop = softmax_flop(n_rows, n_cols, direction)
    # a copy reads and writes each element once, as the forward pass does; a backward pass moves half as much again
    copied = softmax_bytes(n_rows, n_cols, dtype.itemsize)
    # bytes a microsecond are megabytes a second; a thousand of them are a gigabyte
    gb_per_s = moved / timing.median_us / 1e3
    return {
        "kernel": name,
        "direction": direction,
        "rows": n_rows,
        "cols": n_cols,
        "dtype": str(dtype).removeprefix("torch."),
        "median_us": timing.median_us,
        "p20_us": timing.percentile(20),
        "p80_us": timing.percentile(80),
        "graph_us": timing.graph_us,
        "gb_per_s": gb_per_s,
        "fraction_of_copy": gb_per_s / ceiling,
        "flop_per_byte": flop / moved,
        "tflop_per_s": flop / timing.median_us / 1e6,
        "l2_resident": False,  # the inputs rotate through three times the cache
        "reference_us": reference.median_us,
        "reference_graph_us": reference.graph_us,
        "ratio_to_reference": timing.median_us / reference.median_us,
        "copy_us": copy.median_us,
        "copy_gb_per_s": ceiling,
        # Held against the better of two copies, the large one and the one at this shape, which a cache may help.
        "above_roof": gb_per_s > ABOVE_ROOF * max(ceiling, copied / copy.median_us / 1e3),
        "stale": False,
    }


def _checked_error(at: Place, kernel: Callable, x: torch.Tensor) -> float:
    error = softmax_error(kernel(x), x)
    # NaN is not either
    if not error <= TOLERANCE[at["dtype"]]:
        raise Refusal({**wrong(error, TOLERANCE[at["dtype"]]), "at": at})
    return error
