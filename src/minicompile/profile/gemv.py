"""Does a compiled matrix-vector product beat cuBLAS? At batch 1 each weight is read once, so bytes decide.

Eager calls cuBLAS; on a CPU, what torch calls there. Compiled is torch.compile's default, max-autotune its mode of that
name without CUDA graphs of its own, since each is timed in one. int8 weights have no product of cuBLAS's that takes a
bfloat16 vector: cuBLAS gets them as bfloat16, made before the clock runs. All read other weights at each launch, so
that these come from memory and not from a cache.
"""

import time
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional as F

from minicompile.models import SEED, gemv
from minicompile.profile.verdict import gain, verdict
from minikernel.measure.noise import floors, measure_with_duplicate
from minikernel.measure.timing import CACHE_MULTIPLE, Timing, last_level_cache_bytes, raw, timings_of
from minilab import LabError

LIBRARY, COMPILED, TUNED = "cublas", "compiled", "max_autotune"
MODES = {COMPILED: "default", TUNED: "max-autotune-no-cudagraphs"}
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2, "int8": 2e-2}  # of the largest result, between two orders of summing
LARGEST_SET = 4 << 30  # bytes of weights in rotation, at most
MOST_SETS = 64
Operands = tuple[torch.Tensor, ...]  # vector, weights, weights for the library, scale


def product(operands: Operands) -> torch.Tensor:
    """The product that is compiled: (1, N), from the weights as they are stored."""
    x, weight, _, *scale = operands
    return F.linear(x, weight.to(x.dtype)) * scale[0] if scale else F.linear(x, weight)


def library(operands: Operands) -> torch.Tensor:
    """The same by one library call, whose weights have the vector's dtype."""
    x, _, weight, *scale = operands
    return F.linear(x, weight) * scale[0] if scale else F.linear(x, weight)


def operands(shape: tuple[int, int], dtype: str, device: torch.device) -> list[Operands]:
    """Sets of operands, as many as exceed the last-level cache three times over.

    Args:
        shape: (N, K) of the weights.
        dtype: of the weights: float32, bfloat16 or int8.
    """
    with device:
        made = gemv("gemv" if dtype == "float32" else f"gemv_{dtype}", shape)
    x, stored = made.inputs[0], dict(made.module.named_buffers())
    weight, scale = stored["weight"], (stored["scale"],) if dtype == "int8" else ()
    copies = 1 + -(-CACHE_MULTIPLE * last_level_cache_bytes(device) // weight.nbytes)
    copies = max(2, min(copies, MOST_SETS, LARGEST_SET // (weight.numel() * x.element_size())))
    found = []
    for _ in range(copies):
        each = weight.clone()
        found.append((x, each, each.to(x.dtype) if dtype == "int8" else each, *scale))
    return found


def cases(shapes: list[list[int]], dtypes: list[str]) -> Iterator[tuple[tuple[int, int], str]]:
    """Every shape in the first dtype, then in the next, so that a time limit leaves whole answers."""
    for dtype in dtypes:
        for rows, columns in shapes:
            yield (rows, columns), dtype


def measure_gemv(params: dict, device: torch.device, say: Callable[[str], None]) -> dict:
    """Time the products; the result is gemv.json without its provenance.

    Args:
        params: `shapes` (each [N, K]), `dtypes`, `launches`, `warmup`, `time_limit_seconds` after which no case begins.
        device: a GPU, or a CPU to try it on.
        say: takes a line about each case.

    Raises:
        LabError: a compiled product computes something else than the library's.
    """
    began, rows, left_out = time.monotonic(), [], []
    for shape, dtype in cases(params["shapes"], params["dtypes"]):
        if time.monotonic() - began > params["time_limit_seconds"]:
            left_out.append({"rows": shape[0], "cols": shape[1], "dtype": dtype})
            continue
        row = measure_case(shape, dtype, params, device)
        say(
            f"gemv {shape[0]}x{shape[1]} {dtype}: cuBLAS {row['times_us'][LIBRARY]:.1f} us, compiled "
            f"{row['speedup'][COMPILED]:.2f} times as fast, max-autotune {row['speedup'][TUNED]:.2f}"
        )
        rows.append(row)
    return {"complete": not left_out, "left_out": left_out, "products": rows}


def measure_case(shape: tuple[int, int], dtype: str, params: dict, device: torch.device) -> dict:
    """Time one product: its row of gemv.json."""
    torch.manual_seed(SEED)
    inputs = operands(shape, dtype, device)
    torch.compiler.reset()
    compiled: dict[str, Callable] = {}
    seconds = {}
    with torch.no_grad():
        expected = library(inputs[0]).float()
        for name, mode in MODES.items():
            function = torch.compile(product, mode=mode, dynamic=False)
            began = time.perf_counter()
            found = function(inputs[0]).float()
            seconds[name] = time.perf_counter() - began
            _check(found, expected, name, shape, dtype)
            compiled[name] = function
        timings, launched = measure_with_duplicate(
            {LIBRARY: library, **compiled}, LIBRARY, LIBRARY, inputs, params["warmup"], params["launches"]
        )
    return {
        "rows": shape[0],
        "cols": shape[1],
        "dtype": dtype,
        "weight_bytes": inputs[0][1].nbytes,
        "sets": len(inputs),
        "compile_seconds": seconds,
        "launches": launched["launches"],
        **figures(timings),
        **raw(timings),
    }


def _check(found: torch.Tensor, expected: torch.Tensor, name: str, shape: tuple[int, int], dtype: str) -> None:
    difference = ((found - expected).abs().max() / expected.abs().max()).item()
    if not difference <= TOLERANCE[dtype]:
        raise LabError(
            f"gemv {shape[0]}x{shape[1]} {dtype}: {name} differs from the library's product by {difference:.3g} of the "
            f"largest result, and {TOLERANCE[dtype]:g} is allowed; the compiled code is wrong there, report it."
        )


def figures(timings: dict[str, Timing]) -> dict:
    """What follows from the launches.

    Returns:
        `times_us` in a CUDA graph (on a CPU, of a call); `speedup` of each compiled product over the library's; how far
        two timings of the library's lie apart (`noise_floor`); the `verdict` on each: faster, slower, or same where the
        difference is within that.
    """
    names = (LIBRARY, COMPILED, TUNED)
    times = {name: timings[name].graph_us or timings[name].median_us for name in names}
    both = floors(timings, LIBRARY)
    noise = both["noise_floor"] if both["graph_noise_floor"] is None else both["graph_noise_floor"]
    speedup = {name: times[LIBRARY] / times[name] for name in MODES}
    return {
        "times_us": times,
        "speedup": speedup,
        "noise_floor": noise,
        "verdict": {name: verdict(gain(times[LIBRARY], times[name]), noise) for name in MODES},
    }


def recomputed(row: dict) -> dict:
    """The figures of a row again, from its launches."""
    return {**{name: row[name] for name in ("rows", "cols", "dtype")}, **figures(timings_of([row]))}
