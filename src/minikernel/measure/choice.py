"""What follows from a search: the configuration to launch at a shape, and which of two kernels.

Nothing is tuned here. The search is `minikernel.measure.autotune`.
"""

import importlib
import math
import statistics

from minikernel.ops.registry import kernels

RIVAL = "fused"  # has nothing to tune
# A launch of Triton's costs the host more than the rival's. So it is chosen where it takes less than this part of the
# rival's time (on an H200, tuning once put it 6 % ahead where the contest put it 3 % behind), and so long that the
# host is ahead of the GPU.
WORTH, HOST_US = 0.93, 25


def fastest(kernel_name: str, found: list[dict], rival_samples_us: list[float] | None) -> dict:
    """The part of a choice that follows from the rows of `tried` at one shape, at least one of them timed."""
    timed = [row for row in found if row["median_us"] is not None]
    best = min(timed, key=lambda row: row["median_us"])
    # What the lab's own grid alone would have given: the difference is what searching beyond it was worth.
    grid = min((row for row in timed if row["in_lab_grid"]), key=lambda row: row["median_us"], default=None)
    rival_us = statistics.median(rival_samples_us) if rival_samples_us else None
    return {
        "config": best["config"],
        "median_us": best["median_us"],
        "lab_grid": grid and {"config": grid["config"], "median_us": grid["median_us"]},
        "rival_us": rival_us,
        "rival_samples_us": rival_samples_us,
        "faster": kernel_name if rival_us is None or HOST_US < best["median_us"] < WORTH * rival_us else RIVAL,
    }


def choose(autotune: dict, rows: int, cols: int, dtype: str) -> dict:
    """The configuration to launch at (rows, cols), read from a tuning result; nothing is tuned.

    The exact shape's choice; else that of the nearest number of rows (by ratio) at the same width, in the
    same dtype where there is one; else the kernel's default for a width that nobody tuned.
    """
    same_width = [choice for choice in autotune["choices"] if choice["cols"] == cols]
    # Another dtype of the same width is nearer than another width: tiles and alignment are by columns.
    same_dtype = [choice for choice in same_width if choice["dtype"] == dtype]
    nearby = same_dtype or same_width
    if not nearby:
        return importlib.import_module(kernels.spec(autotune["kernel"]).module).default_config(cols)
    return min(nearby, key=lambda choice: abs(math.log(max(choice["rows"], 1) / max(rows, 1))))["config"]
