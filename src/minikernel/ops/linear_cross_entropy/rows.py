"""Launches "rows": cuBLAS's products over chunks of rows, one kernel over each chunk's logits between them.

Logits are float32: rounded to 16 bits, those of a rare word have an error that its row of the weight's gradient shows
(0.013 of it at 1,024 tokens, 1,024 features and 20,000 words, where float32 leaves 0.003), and a common offset costs
all of them their digits.

Classes are filled up to whole lines of memory, with weights of 0 and gradients of 0: cuBLAS takes its slow products
where rows start anywhere or where a sum has an odd number of terms, as 50,257 is.
"""

from functools import cache
from typing import Any

import torch

from minikernel.ops.linear_cross_entropy.chunked import Result, chunks
from minikernel.ops.linear_cross_entropy.launch import Launch, multiprocessors, on_device_of
from minikernel.ops.linear_cross_entropy.options import Inputs, Options, Wanted, parts_of, spread_of
from minikernel.ops.linear_cross_entropy.rows_kernel import rows_kernel, times_kernel

# Beside the gradients: a chunk's logits and the weight's gradient in float32. To add a chunk to that costs as long as
# some 330 rows' products do, whatever the width, so chunks are as long as the memory lets them.
BYTES, WIDE_BYTES = 256 << 20, 1 << 30
WIDE = 2048  # features from which the gradients themselves are larger than that
LEAST_ROWS, STEP = 1024, 256
PADDED = 64  # columns
BLOCK, WARPS, STAGES = 4096, 16, 1  # elements of a row at once, warps of a program, and how far loads run ahead
PROGRAMS = 2  # a multiprocessor
MULTIPLIED = 4096  # elements that a program of the last kernel multiplies


def rows_of_a_chunk(rows: int, classes: int, features: int) -> int:
    """How many rows have their logits in memory at once; all of them need no float32 gradient beside."""
    limit = WIDE_BYTES if features >= WIDE else BYTES
    one = 4 * padded(classes)
    if rows * one <= max(limit, LEAST_ROWS * one + 4 * classes * features):  # the least that chunks take
        return max(rows, 1)
    fit = (limit - 4 * classes * features) // one // STEP * STEP
    return max(fit, LEAST_ROWS)


def weight_dtype(rows: int, classes: int, features: int, dtype: torch.dtype) -> torch.dtype:
    """Of the weight's gradient as `run` makes it: float32 where chunks are added up."""
    return dtype if rows <= rows_of_a_chunk(rows, classes, features) else torch.float32


def padded(classes: int) -> int:
    """Elements from one row of logits to the next: classes, and what fills them up."""
    return parts_of(classes, PADDED) * PADDED


def filled_up(weight: torch.Tensor, rows: int) -> torch.Tensor:
    """The weight with rows of 0 below, so that it has `rows`; itself where it has as many."""
    classes = weight.shape[0]
    if classes == rows:
        return weight
    filled = weight.new_empty(rows, weight.shape[1])
    filled[:classes] = weight
    filled[classes:] = 0
    return filled


@cache
def launch_of(bias: bool, class_weight: bool, smooth: bool, scaled: bool, gradient: bool) -> Launch:
    """The kernel between the products."""
    flags = {"HAS_BIAS": bias, "HAS_CLASS_WEIGHT": class_weight, "SMOOTH": smooth, "SCALED": scaled}
    return Launch(rows_kernel, **flags, GRADIENT=gradient, BLOCK=BLOCK, STAGES=STAGES, num_warps=WARPS)


def run(
    inputs: Inputs,
    options: Options,
    wanted: Wanted = Wanted(),  # noqa: B008
    upstream: torch.Tensor | None = None,
) -> Result:
    """As `chunked.run`; the gradients of h and weight are in their dtype where one product makes them, else float32."""
    h, weight, target = (tensor.contiguous() for tensor in inputs[:3])
    bias, class_weight = inputs.bias, inputs.class_weight
    rows, features = h.shape
    classes = weight.shape[0]
    float32: dict[str, Any] = {"dtype": torch.float32, "device": h.device}
    losses, weights = torch.empty(rows, **float32), torch.empty(rows, **float32)
    spread = spread_of(options, weight, class_weight)
    mass = options.label_smoothing if class_weight is None or spread is None else float(spread.sum())
    step = rows_of_a_chunk(rows, classes, features)
    dh = torch.empty_like(h) if wanted.h else None
    dweight = None
    dbias = torch.zeros(classes, **float32) if wanted.bias else None
    wide = filled_up(weight, padded(classes))
    buffer = torch.empty(min(step, rows), wide.shape[0], **float32)
    gradients = buffer.view(h.dtype)[:, -wide.shape[0] :]
    launch = launch_of(
        bias is not None, class_weight is not None, spread is not None, upstream is not None, any(wanted)
    )
    for part in chunks(rows, step):
        count = part.stop - part.start
        chunk, logits, dlogits = h[part], buffer[:count], gradients[:count]
        product_in_float32(chunk, wide.T, logits)
        factor = None if upstream is None else upstream[part]
        with on_device_of(h):
            launch(
                (min(count, PROGRAMS * multiprocessors(h)), 1, 1),
                losses[part],
                weights[part],
                logits,
                dlogits,
                target[part],
                weight if bias is None else bias.contiguous(),
                weight if class_weight is None else class_weight.contiguous(),
                losses if spread is None else spread,
                losses if factor is None else factor,
                0 if factor is None else factor.stride(0),
                logits.stride(0),
                dlogits.stride(0),
                count,
                classes,
                options.ignore_index,
                options.z_loss,
                1.0 - options.label_smoothing,
                mass if spread is not None else 0.0,
            )
        if dh is not None:
            torch.mm(dlogits, wide, out=dh[part])
        if wanted.weight:
            if step >= rows:
                dweight = torch.mm(dlogits.T, chunk)
            elif dweight is None:
                dweight = product_in_float32(dlogits.T, chunk)
            else:
                # rounded to 16 bits after each chunk, its error would grow with their number
                add_product(dweight, dlogits.T, chunk)
        if dbias is not None:
            dbias += dlogits[:, :classes].sum(0, dtype=torch.float32)
    if wanted.weight and dweight is None:  # there is no token
        dweight = torch.zeros_like(weight)
    return Result(losses, weights, dh, None if dweight is None else dweight[:classes], dbias)


def product_in_float32(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """A product of 16-bit tensors as float32 holds its sums."""
    if not a.is_cuda:
        return torch.mm(a.float(), b.float(), out=out)
    return torch.mm(a, b, out_dtype=torch.float32, out=out)


def add_product(sums: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Add a product of 16-bit tensors to float32 sums."""
    if not a.is_cuda:
        sums += a.float() @ b.float()
        return
    try:
        torch.addmm(sums, a, b, out_dtype=torch.float32, out=sums)
    except RuntimeError:
        # some versions of torch want a summand of the factors' dtype
        sums += product_in_float32(a, b)


@cache
def times_launch() -> Launch:
    """The kernel that multiplies a gradient."""
    return Launch(times_kernel, BLOCK=MULTIPLIED, num_warps=8)


def times(gradient: torch.Tensor, factor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A new tensor of this dtype: a contiguous gradient times the one number in `factor`."""
    product = torch.empty_like(gradient, dtype=dtype)
    if gradient.numel():
        with on_device_of(gradient):
            grid = (parts_of(gradient.numel(), MULTIPLIED), 1, 1)
            times_launch()(grid, product, gradient, factor, gradient.numel())
    return product
