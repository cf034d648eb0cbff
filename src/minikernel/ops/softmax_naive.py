"""Launches `cuda/naive.cu`, the first step: one thread a row."""

import torch

from minikernel.ops.operands import contiguous_rows
from minikernel.ops.softmax_cuda import C_TYPES, Launch, launch

# The first rung, and the measure of those above. At 524,288 x 600 float32: 15,045 us on an H200, 3.9 % of a copy's
# bandwidth, and 22,289 us on an H100, 3.7 %.
SOURCE = "cuda/naive.cu"
THREADS = 128  # a block


def instances() -> list[str]:
    """The C++ name of every kernel that can be launched here."""
    return [f"naive<{c_type}>" for c_type in C_TYPES.values()]


def naive(x: torch.Tensor) -> torch.Tensor:
    """Compute softmax over the last axis, one thread a row (`cuda/naive.cu`). Any shape; raises LabError off CUDA."""
    rows = contiguous_rows("naive", x)
    y = torch.empty_like(rows)
    if rows.numel():
        # as many rows in a block as it has threads
        launch(Launch(SOURCE, f"naive<{C_TYPES[x.dtype]}>", THREADS, 1, THREADS), rows, y)
    return y if x.dim() else y.view(())
