"""Launches `cuda/smem.cu`, the second step: one block a row, shared memory."""

import torch

from minikernel.ops.operands import contiguous_rows
from minikernel.ops.softmax_cuda import C_TYPES, Launch, launch

# This rung gives a row to a block. At 524,288 x 600 float32 on an H200: 1,918 us
# after `naive`'s 15,045, 31 % of a copy's bandwidth. On an H100 1,942 us: with a
# slower memory it takes as long, so the limit is within the multiprocessor.
SOURCE = "cuda/smem.cu"
# the source has the same number: its tree of partial results is as long
THREADS = 256  # a block


def instances() -> list[str]:
    """The C++ name of every kernel that can be launched here."""
    return [f"smem<{c_type}>" for c_type in C_TYPES.values()]


def smem(x: torch.Tensor) -> torch.Tensor:
    """Compute softmax over the last axis, one block a row (`cuda/smem.cu`). Any shape; raises LabError off CUDA."""
    rows = contiguous_rows("smem", x)
    y = torch.empty_like(rows)
    if rows.numel():
        launch(Launch(SOURCE, f"smem<{C_TYPES[x.dtype]}>", 1, 1, THREADS), rows, y)
    return y if x.dim() else y.view(())
