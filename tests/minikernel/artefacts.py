"""Small artefacts of stage 24, by hand, for what reads them."""


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
        "flop_per_byte": 0.625,
        "tflop_per_s": rows * 3000 / us / 1e6,
        "noise_floor": 0.01,
        "above_roof": False,
        "stale": False,
    } | changes


def bench(rows: list[dict], device: str = "h200") -> dict:
    gpu = {"name": "NVIDIA H200", "compute_cap": "9.0", "driver_version": "580.1"} if device == "h200" else None
    made = {
        "device": device,
        "date": "2026-11-20T10:00:00+00:00",
        "versions": {"python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0", "cupy": "14.2.0"},
        "hardware": {"cpu": "A Chip", "gpu": gpu},
        "sources": {},
        "params": {},
    }
    return {"provenance": made, "kernels": {}, "rows": rows}


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
