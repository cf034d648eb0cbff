"""The backward pass of a row softmax in Triton: dx = (dy - sum(dy y)) y.

Laid out as `softmax_triton`'s forward pass, with two tensors to hold: rows that fit stay in registers, read once
and written once; longer ones are looped over twice, once for the sum and once for the result. With
TRITON_INTERPRET=1 set before the import, the same kernel runs in Triton's interpreter on CPU tensors.
"""

import torch
import triton
import triton.language as tl

from minikernel.ops.operands import readable
from minikernel.ops.softmax_triton_configs import default_config, specialization
from minikernel.ops.softmax_triton_rows import (
    FUSION,
    LONGEST_UNPACKED,
    check_operand,
    computed_anew,
    edge_columns,
    load_tiles,
    on_device_of,
    place,
)
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
    TILES: tl.constexpr,  # loaded at once: the whole row if it fits
):
    dtype: tl.constexpr = y.dtype.element_ty
    # Two tensors are held at once, so that long 16-bit rows must stay two elements a register.
    PACKED: tl.constexpr = dtype != tl.float32 and cols > LONGEST_UNPACKED
    VECTOR: tl.constexpr = 128 // dtype.primitive_bitwidth
    EDGES: tl.constexpr = cols % VECTOR != 0
    lane, inside, start, begin, count = place(rows, cols, ROWS, BLOCK, VECTOR)
    # What lies before the first and after the last whole 16-byte vector, as in the forward pass.
    if EDGES:
        edge = edge_columns(begin - start, count, VECTOR)
        edge_mask = inside & (edge < cols)
        edge_y = tl.load(y + start + edge, mask=edge_mask, other=0.0).to(tl.float32)
        edge_dy = tl.load(dy + start + edge, mask=edge_mask, other=0.0).to(tl.float32)
    dx += begin
    dy += begin
    y += begin

    # sum(dy y): what the softmax's normalisation takes from every element's gradient
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    if cols <= TILES * BLOCK:
        # zeros outside the row add nothing to the sum
        y_tiles = load_tiles(y, lane, 0, count, inside, 0.0, TILES)
        dy_tiles = load_tiles(dy, lane, 0, count, inside, 0.0, TILES)
        for tile in tl.static_range(TILES):
            sums += y_tiles[tile].to(tl.float32) * dy_tiles[tile].to(tl.float32)
    else:
        for first in range(0, cols, TILES * BLOCK):
            y_tiles = load_tiles(y, lane, first, count, inside, 0.0, TILES)
            dy_tiles = load_tiles(dy, lane, first, count, inside, 0.0, TILES)
            for tile in tl.static_range(TILES):
                sums += y_tiles[tile].to(tl.float32) * dy_tiles[tile].to(tl.float32)
    total = tl.sum(sums, axis=1, keep_dims=True)
    if EDGES:
        total += tl.sum(edge_y * edge_dy, axis=1, keep_dims=True)

    if cols <= TILES * BLOCK:
        for tile in tl.static_range(TILES):
            probability, incoming = y_tiles[tile], dy_tiles[tile]
            if PACKED:
                # the compiler is not to keep the float32 values that the sum was made of
                probability, incoming = computed_anew(probability, total), computed_anew(incoming, total)
            gradient = (incoming.to(tl.float32) - total) * probability.to(tl.float32)
            col = tile * BLOCK + lane
            tl.store(dx + col, gradient.to(dtype), mask=inside & (col < count))
    else:
        # The last tiles first: they are the ones still in the caches.
        last = (cols - 1) // (TILES * BLOCK) * (TILES * BLOCK)
        for back in range(0, cols, TILES * BLOCK):
            first = last - back
            y_tiles = load_tiles(y, lane, first, count, inside, 0.0, TILES)
            dy_tiles = load_tiles(dy, lane, first, count, inside, 0.0, TILES)
            for tile in tl.static_range(TILES):
                gradient = (dy_tiles[tile].to(tl.float32) - total) * y_tiles[tile].to(tl.float32)
                col = first + tile * BLOCK + lane
                tl.store(dx + col, gradient.to(dtype), mask=inside & (col < count))
    if EDGES:
        tl.store(dx + (start - begin) + edge, ((edge_dy - total) * edge_y).to(dtype), mask=edge_mask)


def softmax_backward(
    dy: torch.Tensor,
    y: torch.Tensor,
    config: dict[str, int] | None = None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The gradient that reaches a softmax's input, over the last axis; sums in float32.

    Args:
        dy: the gradient of the softmax's output; shape and dtype of `y`.
        y: the softmax's output, any shape; float32, bfloat16 or float16, on CUDA or in the interpreter.
        config: {"BLOCK", "ROWS", "num_warps"}; the width's `default_config` unless given.
        dtype: of the result; that of `y` unless given.

    Returns:
        A contiguous tensor of the shape of `y`.

    Raises:
        LabError: `y` is not where the kernel runs, its dtype has no kernel, or `dy` is not like `y`.
    """
    y, dy = check_operand(y), readable("the Triton kernel", dy)
    if dy.dtype != y.dtype or dy.shape != y.shape or dy.device != y.device:
        raise LabError(
            "the Triton kernel takes a gradient and probabilities of one shape, device and dtype, not "
            f"{dy.dtype} {tuple(dy.shape)} on {dy.device} with {y.dtype} {tuple(y.shape)} on {y.device}."
        )
    probabilities, incoming = y.contiguous(), dy.contiguous()
    dx = torch.empty_like(probabilities, dtype=dtype)
    if y.numel():
        cols = y.shape[-1] if y.dim() else 1
        rows = y.numel() // cols
        config = config or default_config(cols, y.element_size(), tensors=2)
        grid = (triton.cdiv(rows, config["ROWS"]),)
        keywords = specialization(cols, config, y.element_size(), tensors=2)
        with on_device_of(y):
            softmax_backward_kernel[grid](dx, incoming, probabilities, rows, cols, **keywords, **FUSION)
    return dx
