"""Small artefacts of stage 24, and an exercise's marks, by hand, for what reads them."""

from pathlib import Path

from minikernel.report.stage_24 import Artefacts
from minilab.records.artefact import artefact
from minilab.records.checksums import write_sums
from minilab.records.provenance import provenance
from minilab.records.restore import restore
from minilab.records.store import write_artefact

TRAINING = {
    "held_out_cross_entropy": 2.02,
    "conditional_entropy": 2.0,
    "grammar_surprisal": 2.01,
    "excess_percent": 1.0,
}
DIFFERENCE = {"max_abs_difference": 1e-6, "max_ulps": 3.0}
OUTPUTS = {
    "shape": [2, 16],
    "logits": {"max_abs_difference": 2e-6, "bit_identical": False},
    "probabilities": {"max_abs_difference": 1e-8, "max_relative_difference": 1e-6, "bit_identical": False},
}
EQUIVALENCE = {
    "weights": {"sha256": "a" * 64},
    "contract": {"atol": 1e-5, "rtol": 1e-5, "seed": 42, "shape": [2, 16], "threads": 1, "held": True},
    "outputs": OUTPUTS,
    "layers": [
        {"layer": layer, "torch_numpy": {**DIFFERENCE, "max_ulps": ulps}}
        | dict.fromkeys(("torch_float64", "numpy_float64"), DIFFERENCE)
        for layer, ulps in (("embedding", 0.0), ("blocks.0.ln_1.x", 9.5), ("lm_head", 4.0))
    ],
    "further_shapes": [OUTPUTS, OUTPUTS | {"shape": [8, 128], "logits": {"max_abs_difference": 7e-6}}],
}
PORT = {"arrays": [{}] * 53, "parameters": 290000, "byte_equal": True}
SWAP = {
    "device": "h200",
    "executed_by": "cuda",
    "prompt": "Yesterday I",
    "after": {"top": [{"word": "walked", "probability": 0.2}], "all_past_simple": True},
    "after_to_before": {"max_abs_difference": 1e-7},
    "top1_changed": False,
    "provenance": {"hardware": {"cpu": "A Chip"}, "inputs": {"results/24/minigpt.safetensors": "b" * 64}},
}
AUTOTUNE = {
    "choices": [
        {
            "rows": rows,
            "cols": 600,
            "dtype": "float32",
            "config": {"BLOCK": 1024, "num_warps": 4},
            "median_us": 9.0,
            "lab_grid": None,
        }
        for rows in (512, 4096)
    ]
}


def bench_row(kernel: str, rows: int, us: float, reference_us: float = 100.0, **changes) -> dict:
    moved = rows * 600 * 8
    return {
        "kernel": kernel,
        "direction": "forward",
        "rows": rows,
        "cols": 600,
        "dtype": "float32",
        "median_us": us,
        "reference_us": reference_us,
        "ratio_to_reference": us / reference_us,
        "fraction_of_copy": moved / us / 1e3 / 4000,
        "gb_per_s": moved / us / 1e3,
        "flop_per_byte": 0.625,
        "tflop_per_s": rows * 3000 / us / 1e6,
        "noise_floor": 0.01,
        "above_roof": False,
        "stale": False,
    } | changes


def bench(rows: list[dict], device: str = "h200") -> dict:
    gpu = {"name": "NVIDIA H200", "compute_cap": "9.0", "driver_version": "580.159.04"} if device == "h200" else None
    made = {
        "device": device,
        "date": "2026-11-20T10:00:00+00:00",
        "versions": {"python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0", "cupy": "14.2.0"},
        "hardware": {"cpu": "A Chip", "gpu": gpu},
        "sources": {},
        "params": {},
    }
    return {"provenance": made, "kernels": {}, "rows": rows, "left_out": []}


def allocation(fresh_us: float = 60000.0, page_faults: int = 10000, rungs: bool = False) -> dict:
    """What a fresh result costs a CPU whose copy takes 20 ms into memory that is there; and what rungs ran into."""
    ways = {"copy": (20000.0, 0), "fresh_copy": (fresh_us, page_faults), "softmax": (50000.0, 0)}
    ways["fresh_softmax"] = (fresh_us + 30000.0, page_faults)
    if rungs:
        ways |= {name: (fresh_us + us, page_faults) for name, us in RUNGS_US.items()}
        ways |= {"streaming": (21000.0, 3), "streaming_copy": (16000.0, 0)}
    return {
        "provenance": bench([], "cpu-a")["provenance"],
        "rows": 32768,
        "cols": 600,
        "dtype": "float32",
        "bytes": 32768 * 600 * 4,
        "page_bytes": 4096,
        "line_bytes": 64,
        "threads": 2,
        "ways": {name: way(us, faults) for name, (us, faults) in ways.items()},
        "page_fault_us": (fresh_us - 20000.0) / page_faults if fresh_us > 20000.0 and page_faults else None,
        "counters": {"cycles": "missing", "cache_misses": "missing"},
        "exponential": EXPONENTIAL if rungs else None,
        "build": {"vector_bytes": 32, "left_out": []} if rungs else None,
    }


RUNGS_US = {"loop": 90000.0, "vectors": 12000.0, "threads": 9000.0}  # besides a fresh copy
EXPONENTIAL = {
    "clock_ghz": 3.2,
    "cycles_counted": False,
    "of": {
        "libm": {"ns": 5.0, "cycles": 16.0, "samples_ns": [5.0], "samples_cycles": [16.0]},
        "vector": {"ns": 0.25, "cycles": 0.8, "samples_ns": [0.25], "samples_cycles": [0.8]},
    },
}


def way(us: float, page_faults: int, cache_misses: int | None = None) -> dict:
    """One way's calls in what a CPU's calls run into: as much of its time in the system as it met page faults."""
    return {
        "median_us": us,
        "page_faults": page_faults,
        "system_us": 2.0 * page_faults,
        "cache_misses": cache_misses,
        "samples_us": [us] * 3,
        "samples_page_faults": [page_faults] * 3,
        "samples_system_us": [2.0 * page_faults] * 3,
        "samples_cache_misses": None if cache_misses is None else [cache_misses] * 3,
    }


def counted(cost: dict) -> dict:
    """The same of a CPU whose counters can be read."""
    for name, one in cost["ways"].items():
        one["cache_misses"] = 1_250_000 if "streaming" in name else 3_700_000
    exponential = cost["exponential"] | {"cycles_counted": True}
    return cost | {"counters": dict.fromkeys(("cycles", "cache_misses"), "counted"), "exponential": exponential}


def cpu_bench(**changes) -> dict:
    """A CPU's bench at one shape, with its rungs; `changes` are those of all rows."""
    us = {"loop": 150000.0, "vectors": 72000.0, "threads": 69000.0, "streaming": 21000.0, "F.softmax": 90000.0}
    copied = {"copy_us": 20000.0, "fraction_of_copy": 0.0}
    rows = [bench_row(name, 32768, time, 90000.0, **copied | changes) for name, time in us.items()]
    for row in rows:
        row["fraction_of_copy"] = row["copy_us"] / row["median_us"]
        copies = {"copy": 20000.0, "fresh_copy": 60000.0, "streaming_copy": 16000.0}
        row["samples_us"] = {name: [time] * 3 for name, time in copies.items()}
    return bench(rows, "cpu-a")


def made(**changes) -> Artefacts:
    """What stage 24's pages are written from, a GPU's bench at one shape unless told."""
    parts = {
        "training": TRAINING,
        "port": PORT,
        "equivalence": EQUIVALENCE,
        "benches": [gpu_bench()],
        "swaps": [SWAP],
        "autotune": AUTOTUNE,
    }
    return Artefacts(**parts | changes)


def ceilings(**changes) -> dict:
    return {
        "provenance": {},
        "copy_gb_per_s": 4000.0,
        "l2_gb_per_s": 8000.0,
        "fp32_tflop_per_s": 60.0,
        "tf32_tflop_per_s": 400.0,
        "bf16_tflop_per_s": 800.0,
        "cache_bytes": 60 << 20,
        "datasheet": None,
    } | changes


def timed_beside(busy: float, median_us: float, noise_floor: float) -> dict:
    return {"busy": busy, "median_us": median_us, "noise_floor": noise_floor, "graph_noise_floor": None}


NOISE = {  # of a device's ceilings: one shape that jobs beside leave as it was, one that they do not
    "processes": 4,
    "rows": [
        {"rows": 4096, "cols": 600, "dtype": "float32", "alone": timed_beside(0.4, 11.4, 0.0042),
         "beside": timed_beside(4.5, 11.43, 0.0091)},
        {"rows": 524288, "cols": 600, "dtype": "float32", "alone": timed_beside(0.3, 602.0, 0.0003),
         "beside": timed_beside(4.1, 611.0, 0.0017)},
    ],
}  # fmt: skip


def contest_row(
    kernel: str, cols: int, us: float, direction: str = "forward", dtype: str = "float32", **changes
) -> dict:
    """A row of the contest: 16,384 rows unless told, bandwidth by the count of bytes, against a copy of 4 TB/s."""
    rows = changes.get("rows", 16384)
    itemsize = 4 if dtype == "float32" else 2
    moved = rows * cols * itemsize * (2 if direction == "forward" else 3)
    return {
        "kernel": kernel,
        "direction": direction,
        "rows": rows,
        "cols": cols,
        "dtype": dtype,
        "median_us": us,
        "graph_us": 0.9 * us,
        "gb_per_s": moved / us / 1e3,
        "fraction_of_copy": moved / us / 1e3 / 4000,
        "noise_floor": 0.004,
        "graph_noise_floor": 0.004,
        "stale": False,
    } | changes


def head_row(kernel: str, rows: int, us: float, **changes) -> dict:
    """A row of `head.json`; where it is not fused, the logits are written and read besides."""
    fused = kernel.startswith("linear_softmax")
    moved = 4 * rows * (64 + 600 * (1 if fused else 3))
    flop = rows * 600 * (2 * 64 + 5)
    return {
        "kernel": kernel,
        "fused": fused,
        "rows": rows,
        "features": 64,
        "cols": 600,
        "dtype": "float32",
        "median_us": us,
        "graph_us": 0.9 * us,
        "noise_floor": 0.004,
        "graph_noise_floor": 0.004,
        "max_rel_err": 5e-7,
        "bytes": moved,
        "flop": flop,
        "flop_per_byte": flop / moved,
        "tflop_per_s": flop / us / 1e6,
        "gb_per_s": moved / us / 1e3,
        "fraction_of_copy": moved / us / 1e3 / 4000,
    } | changes


def host_row(kernel: str, us: float, **changes) -> dict:
    """A row of what a call costs the host."""
    return {
        "kernel": kernel,
        "rows": 64,
        "cols": 600,
        "dtype": "float32",
        "requires_grad": False,
        "median_us": us,
        "noise_floor": 0.004,
    } | changes


def standard(number: int, ours_us: float, value: float, bar: float, **changes) -> dict:
    """One entry of the contest's `standards`: a bar at one shape, and whether it is met."""
    smaller_is_better = number in (1, 5)
    return {
        "standard": number,
        "what": "forward_time",
        "direction": "forward",
        "rows": 16384,
        "cols": 4096,
        "dtype": "float32",
        "ours": "fused",
        "ours_us": ours_us,
        "peer": "quack",
        "peer_us": 100.0,
        "value": value,
        "bar": bar,
        "met": value <= bar if smaller_is_better else value >= bar,
        "within_noise": False,
        "noise_floor": 0.004,
        "timing": "events",
    } | changes


def heads(rows: list[dict], **changes) -> dict:
    """`head.json` of some rows."""
    return {
        "provenance": bench([])["provenance"],
        "complete": True,
        "copy_gb_per_s": 4000.0,
        "rows": rows,
        "standards": [],
        "left_out": [],
    } | changes


def contest(rows: list[dict], **changes) -> dict:
    return {
        "provenance": bench([])["provenance"],
        "complete": True,
        "copy_gb_per_s": 4000.0,
        "cache_bytes": 60 << 20,
        "rows": rows,
        "head": [],
        "host": [],
        "standards": [],
        "left_out": [],
        "peers": {"liger": "0.8.5", "quack": None},
    } | changes


def gpu_bench(triton_us: float = 95.0, **changes) -> dict:
    """A GPU's bench at one shape, `changes` being those of its fused kernel."""
    rows = [
        bench_row("naive", 512, 900.0),
        bench_row("smem", 512, 180.0),
        bench_row("fused", 512, 90.0, **changes),
        bench_row("triton", 512, triton_us),
        bench_row("F.softmax", 512, 100.0),
    ]
    return bench(rows)


def ladder(**changes) -> dict:
    """The marks of a right softmax of one's own in one pass, timed, with some of them changed."""
    case = {"case": "random", "rows": 5, "cols": 600, "error": 1e-7, "reason": None}
    traffic = {"rows": 4, "reads": 1.0, "writes": 1.0, "launches": 1, "tile": 1024, "operations": {}, "moved": {}}
    timed = {
        "rows": 64, "cols": 600, "ratio_to_reference": 1.0, "noise_floor": 0.01, "fraction_of_copy": 0.95,
        "median_us": 5.0, "launches": 100,
    }  # fmt: skip
    marks = {
        "exercise": "mine", "source": "mine.py", "executed_by": "cuda", "unfilled": False, "ended": None,
        "cases": [case],
        "predicted": dict.fromkeys(("reads", "writes", "megabytes", "share_of_copy")),
        "traffic": [{"cols": 600, **traffic}, {"cols": 50257, **traffic}],
        "timed": [timed, {**timed, "rows": 4096}], "untimed": None,
    }  # fmt: skip
    for key, value in changes.items():
        marks[key] = (
            [{**row, **value} for row in marks[key]]
            if isinstance(marks[key], list) and isinstance(value, dict)
            else value
        )
    return marks


def restored_from_a_record(name: str, params: dict, measured: dict, folder: Path) -> dict:
    """What is restored, and is not stale, once `measured` has been recorded in `folder` as an H200's artefact."""
    path = folder / f"h200/24/{name}.json"
    write_artefact(path, {"provenance": provenance([], params, "h200"), **measured})
    write_sums(folder / "h200", [path])
    restored = restore(path, artefact(name), folder / "h200", {"": (params, {})}, "fail")
    assert not restored["restored"]["stale"]
    return restored
