"""The figures of the softmax kernels on a GPU that the concept pages quote, from its record and the cost model."""

from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import torch

from docs.build.matches import first_group
from minikernel.measure.cost import softmax_bytes, softmax_flop
from minikernel.ops.ladder.table import LADDERS
from minikernel.report.roofline import of_one_copy, panel, ridge
from minilab.files import read_json


def softmax_facts(record: Path, headline: list[int]) -> dict:
    """Collect everything that the pages quote of one device's record.

    Args:
        record: folder of the record, with bench.json, ceilings.json, autotune.json, kernel_swap.json.
        headline: [rows, cols] of the shape that the pages speak of.

    Returns:
        Plain data. Times in microseconds, bandwidths in GB/s, rates in TFLOP/s; shares are fractions of a copy's
        bandwidth.

    Raises:
        LabError: a file of the record is missing, or the bench has no row at the headline shape.
    """
    bench, ceilings = read_json(record / "bench.json"), read_json(record / "ceilings.json")
    shown = panel({**ceilings, "restored": {}}, {**bench, "restored": {}}, headline)
    rows, cols = headline
    itemsize = getattr(torch, shown["dtype"]).itemsize
    n_bytes, n_flop = softmax_bytes(rows, cols, itemsize), softmax_flop(rows, cols)
    copy, peak = ceilings["copy_gb_per_s"], ceilings["fp32_tflop_per_s"]
    by_kernel = {point["kernel"]: point for point in shown["points"]}
    forward = of_one_copy([row for row in bench["rows"] if row["direction"] == "forward"])
    smallest = min(row["rows"] for row in forward)
    ladder = [rung for rung in LADDERS["CUDA C"] if rung in by_kernel]  # a record may lack a rung
    return {
        "device": shown["device"],
        "name": shown["name"],
        "date": shown["date"],
        "rows": rows,
        "cols": cols,
        "dtype": shown["dtype"],
        "itemsize": itemsize,
        "flop_per_element": softmax_flop(1, 1),
        "bytes_per_element": softmax_bytes(1, 1, itemsize),
        "flop_per_byte": n_flop / n_bytes,
        "n_bytes": n_bytes,
        "n_flop": n_flop,
        "copy_gb_per_s": copy,
        "l2_gb_per_s": ceilings["l2_gb_per_s"],
        "fp32_tflop_per_s": peak,
        "datasheet": ceilings["datasheet"],
        "ridge": ridge(copy, peak),
        "roof_tflop_per_s": n_flop / n_bytes * copy / 1e3,
        "memory_us": n_bytes / copy / 1e3,
        "arithmetic_us": n_flop / peak / 1e6,
        "kernels": by_kernel,
        "fastest": shown["points"][0],
        "slowest": shown["points"][-1],
        "steps": {
            after: {"from": before, "factor": by_kernel[before]["median_us"] / by_kernel[after]["median_us"]}
            for before, after in pairwise(ladder)
        },
        "ladder": {
            kernel: [(row["rows"], row["fraction_of_copy"]) for row in forward if row["kernel"] == kernel]
            for kernel in ladder
        },
        "smem_threads": _smem_threads(),
        "tree_steps": _smem_threads().bit_length() - 1,
        "noise_floor": max(row["noise_floor"] for row in forward),
        "small": {
            "rows": smallest,
            "memory_us": softmax_bytes(smallest, cols, itemsize) / copy / 1e3,
            "fastest": min((row for row in forward if row["rows"] == smallest), key=lambda row: row["median_us"]),
        },
        "tuned": [choice for choice in read_json(record / "autotune.json")["choices"] if choice["cols"] == cols],
        "swap": read_json(record / "kernel_swap.json"),
    }


def _smem_threads() -> int:
    """Read the number of threads in a block of the kernel `smem` from its source."""
    source = (files("minikernel") / "ops/cuda/smem.cu").read_text()
    return int(first_group(r"^#define THREADS (\d+)$", source, "smem.cu"))
