"""The backward pass of a row softmax in Triton: dx = (dy - sum(dy y)) y.

As in `softmax_triton`, a program takes ROWS rows; rows of up to BLOCK columns stay in registers, longer ones
are looped over twice, once for the sum and once for the result. With TRITON_INTERPRET=1 set before the
import, the same kernel runs in Triton's interpreter on CPU tensors.
"""

import torch
import triton
import triton.language as tl

from minikernel.softmax_triton import DTYPES, INTERPRETED, default_config
from minilab import LabError


@triton.jit(do_not_specialize=["rows"])
def softmax_backward_kernel(
    dx,  # (rows, cols), contiguous: the gradient of the logits
    dy,  # (rows, cols), contiguous: the gradient of the probabilities
    y,  # (rows, cols), contiguous: the probabilities
    rows,
    cols: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    dx += row * cols
    dy += row * cols
    y += row * cols

    if cols <= BLOCK:
        mask = (row < rows) & (col < cols)
        probability = tl.load(y + col, mask=mask, other=0.0).to(tl.float32)
        incoming = tl.load(dy + col, mask=mask, other=0.0).to(tl.float32)
        total = tl.sum(probability * incoming, axis=1, keep_dims=True)
        tl.store(dx + col, ((incoming - total) * probability).to(dx.dtype.element_ty), mask=mask)
    else:
        lanes = tl.zeros([ROWS, BLOCK], tl.float32)
        for first in range(0, cols, BLOCK):
            mask = (row < rows) & (first + col < cols)
            probability = tl.load(y + first + col, mask=mask, other=0.0).to(tl.float32)
            lanes += probability * tl.load(dy + first + col, mask=mask, other=0.0).to(tl.float32)
        total = tl.sum(lanes, axis=1, keep_dims=True)
        for first in range(0, cols, BLOCK):
            mask = (row < rows) & (first + col < cols)
            probability = tl.load(y + first + col, mask=mask, other=0.0).to(tl.float32)
            incoming = tl.load(dy + first + col, mask=mask, other=0.0).to(tl.float32)
            tl.store(dx + first + col, ((incoming - total) * probability).to(dx.dtype.element_ty), mask=mask)


def softmax_backward(dy: torch.Tensor, y: torch.Tensor, config: dict[str, int] | None = None) -> torch.Tensor:
    """The gradient that reaches a softmax's input, over the last axis; sums in float32.

    Args:
        dy: the gradient of the softmax's output; shape and dtype of `y`.
        y: the softmax's output, any shape; float32, bfloat16 or float16, on CUDA or in the interpreter.
        config: {"BLOCK", "ROWS", "num_warps"}; `softmax_triton.default_config` of the width unless given.

    Returns:
        A contiguous tensor like `y`.

    Raises:
        LabError: `y` is not where the kernel runs, its dtype has no kernel, or `dy` is not like `y`.
    """
    if not (y.is_cuda or INTERPRETED):
        raise LabError(
            f"the Triton kernel takes CUDA tensors, not one on {y.device}; set TRITON_INTERPRET=1 before "
            "Python starts to run it in Triton's interpreter."
        )
    if y.dtype not in DTYPES or dy.dtype != y.dtype or dy.shape != y.shape or dy.device != y.device:
        raise LabError(
            "the Triton kernel takes a gradient and probabilities of one shape, device and dtype out of float32, "
            f"bfloat16 and float16, not {dy.dtype} {tuple(dy.shape)} with {y.dtype} {tuple(y.shape)}."
        )
    probabilities, incoming = y.contiguous(), dy.contiguous()
    dx = torch.empty_like(probabilities)
    if y.numel():
        cols = y.shape[-1] if y.dim() else 1
        rows = y.numel() // cols
        config = config or default_config(cols)
        grid = (triton.cdiv(rows, config["ROWS"]),)
        softmax_backward_kernel[grid](dx, incoming, probabilities, rows, cols, **config)
    return dx
