"""Launches `cuda/warp.cu`, the step between `smem` and `fused`: one warp a row, the row in registers."""

import torch

from minikernel.ops.operands import contiguous_rows
from minikernel.ops.softmax_cuda import C_TYPES, Launch, launch

# This rung reads a row once and needs no barrier. At 524,288 x 600 float32: 656 us after `smem`'s 1,918 on an H200,
# 90 % of a copy's bandwidth; 831 us after 1,942 on an H100, 100 %, so that the next rung has nothing to gain there.
SOURCE = "cuda/warp.cu"
THREADS = 128  # a block
WARP = 32


def instances() -> list[str]:
    """The C++ name of every kernel that can be launched here."""
    return [f"warp<{c_type}>" for c_type in C_TYPES.values()]


def warp(x: torch.Tensor) -> torch.Tensor:
    """Compute softmax over the last axis, one warp a row (`cuda/warp.cu`). Any shape; raises LabError off CUDA.

    Rows of up to 1,024 columns are read once; what a longer row has beyond them is read three times.
    """
    rows = contiguous_rows("warp", x)
    y = torch.empty_like(rows)
    if rows.numel():
        launch(Launch(SOURCE, f"warp<{C_TYPES[x.dtype]}>", THREADS // WARP, 1, THREADS), rows, y)
    return y if x.dim() else y.view(())
