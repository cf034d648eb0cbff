"""Search the configurations of a tuned kernel for the fastest at each shape; the result is written down, then read.

The search is the lab's own rather than Triton's autotuner because its log is a result: every
configuration tried with its time, registers and spills, or why it failed; what the lab's grid of
BLOCK x num_warps alone would have picked; and a time limit that ends it with the best so far. Timing
follows the bench's rules: configurations take turns, each launch on another buffer of a set that exceeds
three times the L2 cache. The CUDA C kernel takes its turn with them, so that each choice also says which of
the two is faster there: what `minikernel.ops.dispatch` launches (`minikernel.measure.choice`).
"""

import importlib
import time
from collections.abc import Callable
from typing import Any

import torch

from minikernel.measure.choice import RIVAL, fastest
from minikernel.measure.compile_ahead import compile_ahead
from minikernel.measure.timing import Timing, measure, rotating_inputs
from minikernel.ops.registry import kernels
from minikernel.ops.softmax_reference import softmax_float64
from minikernel.proof.accuracy import relative_error
from minikernel.proof.proof import TOLERANCE
from minikernel.reasons import Refusal, in_words, of_exception, wrong
from minilab import LabError

# fewer than a bench's: the search asks which of many is fastest, the bench how fast it is
LAUNCHES, WARMUP = 60, 3
SEED = 42
CHECKED_ROWS = 64  # at each end, against float64, before a configuration is timed


def autotune(
    kernel_name: str,
    shapes: list[list[int]],
    dtypes: list[str],
    device: str,
    time_limit_seconds: float,
    on_progress: Callable[[str], None],
    processes: int = 1,
) -> dict:
    """Time every candidate configuration of a tuned kernel at every shape and dtype.

    Args:
        kernel_name: a kernel of the registry with `tuned` set.
        shapes: [rows, cols] each.
        dtypes: of `float32`, `bfloat16` and `float16`.
        device: torch device, `cuda` or `cuda:N`.
        time_limit_seconds: the search ends there with the best so far; each shape gets an equal share of
            what is left, and its first candidate, the kernel's default, is always tried.
        on_progress: called with one line a shape.
        processes: with several, all candidates are compiled side by side before the first is timed, which may take
            half of the time there is.

    Returns:
        {"kernel", "complete", "choices", "tried"}. A choice: rows, cols, dtype, config, median_us,
        lab_grid (config and median_us of the best of BLOCK x num_warps alone), rival_us (the CUDA C kernel's
        median in the same turns, null where it cannot run) and faster (the name of the one to launch). A row
        of `tried`: rows, cols, dtype, config, in_lab_grid, median_us, n_regs, n_spills, error (a reason, null unless it
        failed). Beside each median lie its samples, as `samples_us` and `rival_samples_us`.

    Raises:
        LabError: the kernel has nothing to tune, or no configuration ran at some shape.
    """
    spec = kernels.spec(kernel_name)
    if not spec.tuned:
        raise LabError(f"kernel {kernel_name} has nothing to tune; leave it out of autotune.")
    module = importlib.import_module(spec.module)
    end = time.monotonic() + time_limit_seconds
    choices, tried, complete = [], [], True
    # All candidates of all shapes first, since they can be compiled before any is timed.
    cases = [
        (rows, cols, dtype, _default_first(module.candidates(rows, cols), module.default_config(cols)))
        for rows, cols in shapes
        for dtype in dtypes
    ]
    to_compile = [(rows, cols, dtype, config) for rows, cols, dtype, configs in cases for config in configs]
    # In the compiler's cache on disk, whatever of it is ready by then: the search below finds it there.
    compile_ahead(spec.module, to_compile, device, processes, time_limit_seconds / 2)
    for index, (rows, cols, dtype, configs) in enumerate(cases):
        # What a shape leaves of its share goes to those after it.
        share = (end - time.monotonic()) / (len(cases) - index)
        found, rival_samples_us = _time_configs(module, configs, rows, cols, dtype, device, time.monotonic() + share)
        tried += found
        # Not one of them: the kernel itself is broken, and each reason is said once.
        if all(row["median_us"] is None for row in found):
            reasons = dict.fromkeys(in_words(row["error"]) for row in found)
            raise LabError(f"no configuration of {kernel_name} ran at {rows} x {cols} {dtype}: {'; '.join(reasons)}.")
        complete = complete and len(found) == len(configs)
        choice = {"rows": rows, "cols": cols, "dtype": dtype, **fastest(kernel_name, found, rival_samples_us)}
        choices.append(choice)
        rival_us = choice["rival_us"]
        on_progress(
            f"{kernel_name} {rows} x {cols} {dtype}: {choice['config']} at {choice['median_us']:.2f} us, "
            f"best of {len(found)} out of {len(configs)} configurations"
            + ("" if rival_us is None else f"; {RIVAL} {rival_us:.2f} us")
        )
    return {"kernel": kernel_name, "complete": complete, "choices": choices, "tried": tried}


def _default_first(configs: list[dict], default: dict) -> list[dict]:
    """The candidates with the kernel's default in front: what a search that is cut short must have tried."""
    return [default, *(config for config in configs if config != default)]


def _ends(x: torch.Tensor) -> torch.Tensor:
    """The rows that are checked: the first and the last `CHECKED_ROWS`."""
    # A wrong grid shows at the end, a wrong row anywhere: both ends are enough while all rows are treated alike.
    return torch.cat([x[:CHECKED_ROWS], x[-CHECKED_ROWS:]])


def _time_configs(
    module, configs: list[dict], rows: int, cols: int, dtype: str, device: str, deadline: float
) -> tuple[list[dict], list[float] | None]:
    """One row of the log for each configuration reached before the deadline, at least the first; the rival's times."""
    torch_dtype = getattr(torch, dtype)
    inputs = rotating_inputs(rows, cols, torch_dtype, torch.device(device), SEED)
    y = torch.empty_like(inputs[0])
    # once for all configurations, and compared where it is: NumPy needs longer for wide rows than a GPU for the timing
    exact = torch.from_numpy(softmax_float64(_ends(inputs[0]).double().cpu().numpy())).to(device)
    # what failed stands in the log too, by its reason: a search is a result, and not only its winner
    log: list[dict] = []
    providers: dict[Any, Callable] = {}  # by number in the log, and the rival by name
    for number, config in enumerate(configs):
        if number and time.monotonic() > deadline:
            break
        row = {"rows": rows, "cols": cols, "dtype": dtype, "config": config, "in_lab_grid": module.in_lab_grid(config)}
        try:
            # so that a configuration that skips some rows is not judged by those of the one before
            y.fill_(torch.nan)
            kernel = module.launch(inputs[0], y, config)
            error = relative_error(_ends(y), exact)
            if not error <= TOLERANCE[dtype]:
                raise Refusal(wrong(error, TOLERANCE[dtype]))
            row |= {"median_us": None, "n_regs": kernel.n_regs, "n_spills": kernel.n_spills, "error": None}
            # as the rival allocates its result: one that is written again and again stays in the cache
            providers[len(log)] = lambda x, config=config: module.softmax(x, config)
        except Exception as failure:  # out of registers or shared memory, or the compiler's own failure
            row |= {"median_us": None, "n_regs": None, "n_spills": None, "error": of_exception(failure)}
        log.append(row)
    # the CUDA C kernel takes turns with the candidates: which of the two is launched follows from one measurement
    rival = kernels[RIVAL]
    try:
        rival(inputs[0])
        providers[RIVAL] = rival
    except LabError:  # no CuPy here
        pass
    timings: dict[Any, Timing] = measure(providers, inputs, WARMUP, LAUNCHES)
    rival_samples_us = timings.pop(RIVAL).samples_us if RIVAL in timings else None
    for tried, timing in timings.items():
        log[tried] |= {"median_us": timing.median_us, "samples_us": timing.samples_us}
    return log, rival_samples_us
