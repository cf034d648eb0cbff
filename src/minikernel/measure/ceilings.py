"""Measure the ceilings of a machine: copy and cache bandwidth, fp32, TF32 and bf16 arithmetic, a GPU's latency.

Bandwidths are those of a copy, bytes read plus bytes written. The fp32 ceiling is the better of a chain of
fused multiply-adds held in registers and of a matrix product: on a GPU the first needs no tensor core and
no memory, on a CPU the second is what keeps every vector unit busy.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from minikernel.measure.beside import noise_beside
from minikernel.measure.cost import datasheet
from minikernel.measure.timing import CACHE_MULTIPLE, last_level_cache_bytes, measure

WARMUP, LAUNCHES = 3, 30
CHASE_CACHES = 4
# Copies far beyond the cache, products large enough to keep
# every unit busy, and both small enough for a CPU's patience.
SIZES: dict[str, dict[str, Any]] = {  # copy bytes (times the last-level cache), matrix side, by kind of device
    "cuda": {"copy_caches": 16, "cache_fraction": 0.25, "matrix": 8192},
    "cpu": {"copy_caches": 6, "cache_fraction": 0.125, "matrix": 1536},
}


@dataclass
class Rate:
    """How fast a device does something, with what it was computed from.

    Attributes:
        amount: what one launch does: bytes read plus written, or operations.
        samples_us: what each launch took.
    """

    amount: int
    samples_us: list[float]

    @property
    def giga_per_s(self) -> float:
        return self.amount / float(np.median(self.samples_us)) / 1e3

    @property
    def tera_per_s(self) -> float:
        return self.giga_per_s / 1e3

    @property
    def ns(self) -> float:
        """What one of them takes, where each waits for the one before."""
        return float(np.median(self.samples_us)) * 1e3 / self.amount


def large_copy(device: torch.device) -> Rate:
    """The bandwidth of a copy too large for any cache: what a kernel's bandwidth is a fraction of."""
    return copy_rate(last_level_cache_bytes(device) * SIZES[device.type]["copy_caches"], device)


def copy_rate(bytes_to_copy: int, device: torch.device, resident: bool = False) -> Rate:
    """Bandwidth of a device-to-device copy, counting bytes read plus bytes written.

    Args:
        bytes_to_copy: bytes of the source.
        resident: keep copying one buffer (which a cache may hold) rather than rotating several.
    """
    # Rotated through more than the cache holds, or one buffer again and again, which then lies in it.
    count = 1 if resident else max(2, -(-CACHE_MULTIPLE * last_level_cache_bytes(device) // bytes_to_copy))
    sources = list(torch.ones((count, bytes_to_copy // 4), device=device).unbind())
    target = torch.empty_like(sources[0])
    # the same rules as for kernels: a roof that is measured otherwise is no roof
    timing = measure({"copy": target.copy_}, sources, WARMUP, LAUNCHES)["copy"]
    # A copy within the cache is over in microseconds: its launches in a graph leave out what lies between them.
    return Rate(2 * bytes_to_copy, (resident and timing.graph_samples_us) or timing.samples_us)


def matrix_rate(side: int, dtype: torch.dtype, device: torch.device, tf32: bool = False) -> Rate:
    """Rate of a square matrix product on random data, in floating-point operations."""
    # a switch of the whole process, put back whatever happens
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        # random data, since a GPU draws less power and clocks higher on zeros
        a, b = (torch.randn((side, side), device=device).to(dtype) for _ in range(2))
        timing = measure({"matmul": lambda x: x @ b}, [a], WARMUP, LAUNCHES)["matmul"]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    # a multiplication and an addition for each of side^3 products
    return Rate(2 * side**3, timing.samples_us)


def multiply_add_rate(device: torch.device) -> Rate:
    """Rate of independent float32 fused multiply-adds in registers on a GPU, in floating-point operations."""
    from minikernel.measure.multiply_add import FLOP_PER_ELEMENT, multiply_add

    # 4 million elements in programs of 1,024: enough of them to fill every multiprocessor many times over
    elements = torch.rand(1 << 22, device=device)
    timing = measure({"fma": multiply_add}, [elements], WARMUP, LAUNCHES)["fma"]
    return Rate(elements.numel() * FLOP_PER_ELEMENT, timing.samples_us)


def latency(device: torch.device) -> Rate:
    """Loads from memory of which each needs the one before, on a GPU."""
    from minikernel.measure.chase import LOADS, chase, links

    # no more than gives each launch lines that none has met: a larger memory's pages are not found at once either
    cache_bytes = last_level_cache_bytes(device)
    cycle = links(CHASE_CACHES * cache_bytes, device)
    place = torch.zeros(1, dtype=torch.int64, device=device)
    torch.empty(2 * cache_bytes, dtype=torch.uint8, device=device).fill_(0)  # what the cache holds of the links goes
    # each launch goes on where the last one ended, so that it meets no line twice
    timing = measure({"chase": lambda x: chase(x, place)}, [cycle], WARMUP, LAUNCHES)["chase"]
    return Rate(LOADS, timing.samples_us)


def measure_ceilings(device: str, torch_device: str, log: Callable[[str], None]) -> dict:
    """Measure every ceiling of the device. Keys as in `ceilings.json`; null where a device has no such unit.

    Args:
        device: the hardware's slug, by which its datasheet is found.
        torch_device: `cpu` or `cuda:N`.
        log: called with one line for each figure.
    """
    at = torch.device(torch_device)
    sizes, cache_bytes = SIZES[at.type], last_level_cache_bytes(at)
    # A share of the cache, since source and target both have to stay in it.
    resident_bytes = int(cache_bytes * sizes["cache_fraction"])
    side = sizes["matrix"]
    on_gpu = at.type == "cuda"
    # a CPU without the instructions would emulate them, and the ceiling would be of the emulation
    has_bf16 = on_gpu or torch.cpu._is_avx512_bf16_supported()
    rates = {
        "copy_gb_per_s": [large_copy(at)],
        "l2_gb_per_s": [copy_rate(resident_bytes, at, resident=True)],
        "fp32_tflop_per_s": [matrix_rate(side, torch.float32, at), *([multiply_add_rate(at)] if on_gpu else [])],
        "tf32_tflop_per_s": [matrix_rate(side, torch.float32, at, tf32=True)] if on_gpu else [],
        "bf16_tflop_per_s": [matrix_rate(side, torch.bfloat16, at)] if has_bf16 else [],
        "latency_ns": [latency(at)] if on_gpu else [],
    }
    ceilings = ceilings_of(rates)
    for name, value in ceilings.items():
        log(f"{device}: {name} = {'none' if value is None else f'{value:,.2f}'}")
    # raw, so that every ceiling can be worked out again from a record
    samples = {name: [asdict(rate) for rate in measured] for name, measured in rates.items()}
    noise = noise_beside(at)
    return {
        **ceilings,
        "samples": samples,
        "cache_bytes": cache_bytes,
        "multiprocessors": torch.cuda.get_device_properties(at).multi_processor_count if on_gpu else None,
        "datasheet": datasheet(device),
        "noise": noise,
    }


def ceilings_of(rates: dict[str, list[Rate]]) -> dict[str, float | None]:
    """The best of what was measured for each ceiling, in the unit of its name; None where nothing was."""
    return {name: _best(name, measured) if measured else None for name, measured in rates.items()}


def _best(name: str, measured: list[Rate]) -> float:
    if name.endswith("_ns"):
        return min(rate.ns for rate in measured)
    return max(rate.giga_per_s if name.endswith("gb_per_s") else rate.tera_per_s for rate in measured)
