"""Row softmax in Triton as a textbook writes it: one program a row, the row in one masked tile, nothing tuned.

A tile's length is a power of two, so a row of 600 takes 1,024 lanes, of which 424 are masked. Longer rows get more
warps, as in Triton's tutorial. `softmax_triton` is the same idea, tuned. float32 only.
"""

import torch
import triton
import triton.language as tl

from minikernel.ops.softmax_triton_rows import FUSION, check_operand, on_device_of
from minilab import LabError


# The first Triton rung: the compiler decides who holds what. At 524,288 x 600 float32: 626 us on an H200, 95 % of a
# copy's bandwidth, faster than `warp` (656) and slower than `fused` (587); 835 us on an H100, 100 %.
@triton.jit
def softmax_kernel(y, x, cols, BLOCK: tl.constexpr):  # y, x: (rows, cols), contiguous; a program for each row
    row = tl.program_id(0).to(tl.int64)  # a tensor may have more elements than 32 bits count
    col = tl.arange(0, BLOCK)
    inside = col < cols
    # minus infinity outside the row: it is no maximum, and its exponential is 0
    logits = tl.load(x + row * cols + col, mask=inside, other=float("-inf"))
    numerator = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(y + row * cols + col, numerator / tl.sum(numerator, axis=0), mask=inside)


def launch_options(cols: int) -> dict[str, int]:
    """The tile of a row of `cols`, and its warps: 16 elements a thread, from four warps up to all 32 of a block."""
    block = triton.next_power_of_2(cols)
    return {"BLOCK": block, "num_warps": min(max(4, block // 512), 32)}


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of `x`: any shape, float32, rows of up to 1,048,576 columns.

    Raises:
        LabError: `x` is not on a CUDA device (and Triton's interpreter is off), or not float32.
    """
    x = check_operand(x)
    if x.dtype != torch.float32:
        raise LabError(f"the textbook Triton kernel takes float32, not {x.dtype}; use the tuned one, `triton`.")
    rows = x.contiguous() if x.dim() else x.reshape(1)
    y = torch.empty_like(rows)
    if rows.numel():
        cols = rows.shape[-1]
        with on_device_of(x):
            softmax_kernel[(rows.numel() // cols,)](y, rows, cols, **launch_options(cols), **FUSION)
    return y.view(x.shape)
