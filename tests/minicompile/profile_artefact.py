"""A profile to read, draw and interpret, whose figures a test changes as it likes."""

import copy

KERNEL = {
    "name": "cpp_fused__softmax_0",
    "graph": "0.forward",
    "calls": 1,
    "median_us": 2.0,
    "noise": 0.02,
    "bytes": 9600.0,
    "flop": 6000.0,
    "gb_per_s": 4.8,
    "tflop_per_s": 0.003,
    "fraction_of_copy": 0.24,
    "flop_per_byte": 0.625,
    "share_of_call": 0.05,
}
MOVING = {**KERNEL, "name": "cpp_fused_clone_1", "calls": 4, "flop": 0.0, "tflop_per_s": 0.0, "flop_per_byte": 0.0}
SIDE = {
    "median_us": 20.0,
    "p20_us": 19.0,
    "p80_us": 22.0,
    "per_second": 1e5,
    "peak_bytes": 9624,
    "tokens": 2,
    "samples_us": [20.0],
    "again_us": [20.0],
    "noise": 0.03,
}
QUIET = {
    "seconds": 2.0,
    "load_average": 0.4,
    "involuntary_switches": 3,
    "others_share": 0.01,
    "steal_share": 0.0,
}
BUSY = {**QUIET, "load_average": 9.0, "involuntary_switches": 1204, "others_share": 0.43, "steal_share": 0.002}
SPLIT = {
    "samples": 100,
    "overlapping": False,
    "call_us": 40.0,
    "guards_us": 20.0,
    "wrapper_us": 6.0,
    "kernels_us": 2.0,
    "libraries_us": 11.0,
    "rest_us": 1.0,
}
TIMING = {
    "shape": [2, 64],
    "mode": "default",
    "calls": 1000,
    "start_seconds": 6.0,
    "cold_compile_seconds": 4.0,
    "warm_compile_seconds": 0.2,
    "max_difference": 5e-10,
    "recompiles": 0,
    "graph_breaks": 0,
    "pool_bytes": None,
    "speedup": 0.5,
    "noise": 0.03,
    "verdict": "slower",
    "eager": SIDE,
    "compiled": {**SIDE, "median_us": 40.0},
}
EXPLICIT = {
    "split": SPLIT,
    "rounds": [],
    "noise": {"call": 0.02, "core": 0.03},
    "generated_kernels": 26,
    "library_calls": 25,
    "bytes": 4_000_000,
    "softmax_kernel": "cpp_fused__softmax_2",
    "operator": None,
    "core": {"calls": 12, "bytes": 1_000_000, "us": 12.0},
}
FUSED = {
    **EXPLICIT,
    "bytes": 2_000_000,
    "softmax_kernel": None,
    "operator": "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",
    "core": {"calls": 4, "bytes": 300_000, "us": 6.0},
}
PROFILE = {
    "provenance": {
        "device": "cpu-x",
        "date": "2026-01-02T03:04:05+00:00",
        "versions": {},
        "hardware": {"cpu": "X", "cores": 2, "system": "test", "gpu": None},
        "sources": {},
        "params": {},
    },
    "model": "tiny_head",
    "trains": False,
    "unit": "rows",
    "largest_difference_allowed": 1e-6,
    "timings": [TIMING],
    "busy": [{"shape": [2, 64], "busy": QUIET}],
    "left_out": [],
    "shapes": [{"shape": [2, 64], "split": SPLIT, "kernels": [KERNEL, MOVING], "rounds": [], "busy": QUIET}],
    "kernels": [KERNEL, MOVING],
    "roofline": {
        "name": "X",
        "ceilings": {
            "copy_gb_per_s": 20.0,
            "l2_gb_per_s": 80.0,
            "fp32_tflop_per_s": 0.2,
            "tf32_tflop_per_s": None,
            "bf16_tflop_per_s": 0.4,
        },
        "datasheet_gb_per_s": None,
        "stale_ceilings": False,
    },
    "attention": [
        {
            "shape": [2, 64],
            "dtype": "float32",
            "max_difference": 1e-7,
            "largest_output": 0.5,
            "from_float32": {"explicit": 0.0, "fused": 0.0},
            "explicit": EXPLICIT,
            "fused": FUSED,
        }
    ],
}


def profile() -> dict:
    """A copy to change."""
    return copy.deepcopy(PROFILE)
