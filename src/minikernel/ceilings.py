"""The roofs of a machine, each measured: copy and cache bandwidth, fp32, TF32 and bf16 arithmetic.

Bandwidths are those of a copy, bytes read plus bytes written. The fp32 roof is the better of a chain of
fused multiply-adds held in registers and of a matrix product: on a GPU the first needs no tensor core and
no memory, on a CPU the second is what keeps every vector unit busy.
"""

from collections.abc import Callable

import torch

from minikernel.cost import datasheet
from minikernel.timing import CACHE_MULTIPLE, last_level_cache_bytes, measure

WARMUP, LAUNCHES = 3, 30
SIZES = {  # copy bytes (times the last-level cache), matrix side, by kind of device
    "cuda": {"copy_caches": 16, "cache_fraction": 0.25, "matrix": 8192},
    "cpu": {"copy_caches": 6, "cache_fraction": 0.125, "matrix": 1536},
}


def copy_gb_per_s(bytes_to_copy: int, device: torch.device, resident: bool = False) -> float:
    """Bandwidth of a device-to-device copy in GB/s, counting bytes read plus bytes written.

    Args:
        bytes_to_copy: bytes of the source.
        resident: keep copying one buffer (which a cache may hold) rather than rotating several.
    """
    count = 1 if resident else max(2, -(-CACHE_MULTIPLE * last_level_cache_bytes(device) // bytes_to_copy))
    sources = list(torch.ones((count, bytes_to_copy // 4), device=device).unbind())
    target = torch.empty_like(sources[0])
    timing = measure({"copy": target.copy_}, sources, WARMUP, LAUNCHES)["copy"]
    return 2 * bytes_to_copy / (timing.graph_us if resident and timing.graph_us else timing.median_us) / 1e3


def matrix_tflop_per_s(side: int, dtype: torch.dtype, device: torch.device, tf32: bool = False) -> float:
    """Rate of a square matrix product on random data, in TFLOP/s."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        a, b = (torch.randn((side, side), device=device).to(dtype) for _ in range(2))
        timing = measure({"matmul": lambda x: x @ b}, [a], WARMUP, LAUNCHES)["matmul"]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return 2 * side**3 / timing.median_us / 1e6


def multiply_add_tflop_per_s(device: torch.device) -> float:
    """Rate of independent float32 fused multiply-adds in registers on a GPU, in TFLOP/s."""
    from minikernel.multiply_add import FLOP_PER_ELEMENT, multiply_add

    elements = torch.rand(1 << 22, device=device)
    timing = measure({"fma": multiply_add}, [elements], WARMUP, LAUNCHES)["fma"]
    return elements.numel() * FLOP_PER_ELEMENT / timing.median_us / 1e6


def measure_ceilings(device: str, torch_device: str, log: Callable[[str], None]) -> dict:
    """Measure every roof of the device. Keys as in `ceilings.json`; null where a device has no such unit.

    Args:
        device: the hardware's slug, by which its datasheet is found.
        torch_device: `cpu` or `cuda:N`.
        log: called with one line for each figure.
    """
    at = torch.device(torch_device)
    sizes, cache_bytes = SIZES[at.type], last_level_cache_bytes(at)
    resident_bytes = int(cache_bytes * sizes["cache_fraction"])
    side = sizes["matrix"]
    fp32 = [matrix_tflop_per_s(side, torch.float32, at)]
    if at.type == "cuda":
        fp32.append(multiply_add_tflop_per_s(at))
    has_bf16 = at.type == "cuda" or torch.cpu._is_avx512_bf16_supported()
    ceilings = {
        "copy_gb_per_s": copy_gb_per_s(cache_bytes * sizes["copy_caches"], at),
        "l2_gb_per_s": copy_gb_per_s(resident_bytes, at, resident=True),
        "fp32_tflop_per_s": max(fp32),
        "tf32_tflop_per_s": matrix_tflop_per_s(side, torch.float32, at, tf32=True) if at.type == "cuda" else None,
        "bf16_tflop_per_s": matrix_tflop_per_s(side, torch.bfloat16, at) if has_bf16 else None,
    }
    for name, value in ceilings.items():
        log(f"{device}: {name} = {'none' if value is None else f'{value:,.2f}'}")
    return {**ceilings, "cache_bytes": cache_bytes, "datasheet": datasheet(device)}
