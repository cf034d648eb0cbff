"""A Triton kernel that does nothing but fused multiply-adds: the measured fp32 ceiling of a GPU."""

import torch
import triton
import triton.language as tl

# 8 bytes of traffic an element are 0.002 bytes a FLOP: far from any memory limit
STEPS = 2048
FLOP_PER_ELEMENT = 2 * STEPS
BLOCK = 1024


@triton.jit
def multiply_add_kernel(x_pointer, y_pointer, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    # Each of the 128 threads holds 8 independent chains, enough to hide the latency of one FMA.
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_pointer + offsets)
    y = x
    for _ in range(STEPS):
        # each step needs the one before, so that the compiler can leave none out
        y = y * x + x
    tl.store(y_pointer + offsets, y)


def multiply_add(x: torch.Tensor) -> torch.Tensor:
    """Apply `y = y * x + x` to each float32 element `STEPS` times, in registers.

    Args:
        x: float32, contiguous, a multiple of 1024 elements.
    """
    y = torch.empty_like(x)
    with torch.cuda.device_of(x):  # where Triton launches
        # said here, or an environment variable would decide whether it multiplies and adds at once
        multiply_add_kernel[(x.numel() // BLOCK,)](x, y, STEPS, BLOCK, num_warps=4, enable_fp_fusion=True)
    return y
