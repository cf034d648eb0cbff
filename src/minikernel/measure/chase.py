"""A Triton kernel that follows links through memory, one load after the other: the measured latency of a GPU."""

import torch
import triton
import triton.language as tl

LOADS = 4096  # of a launch, some milliseconds
LINE = 16  # int64 elements: 128 bytes, of which one is a link


@triton.jit
def chase_kernel(links, place, LOADS: tl.constexpr):
    at = tl.load(place)
    for _ in range(LOADS):
        at = tl.load(links + at)
    tl.store(place, at)


def links(n_bytes: int, device: torch.device, seed: int = 0) -> torch.Tensor:
    """One cycle through all lines of so much memory, in an order that nothing can foresee.

    Each line's first element says where the next line begins.
    """
    lines = n_bytes // (8 * LINE)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(lines, generator=generator)
    cycle = torch.zeros(lines * LINE, dtype=torch.int64)
    cycle[order * LINE] = order.roll(-1) * LINE
    return cycle.to(device)


def chase(cycle: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Follow `LOADS` links from `place`, an element, and write there where that ends.

    Args:
        cycle: as `links` makes it.
        place: int64, one element, on the same device.
    """
    with torch.cuda.device_of(cycle):  # where Triton launches
        chase_kernel[(1,)](cycle, place, LOADS, num_warps=1, enable_fp_fusion=True)
    return place
