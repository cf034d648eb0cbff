"""Row softmax in Triton: one kernel, and the configurations among which it is tuned.

A program takes ROWS rows in tiles of BLOCK columns. Rows that fit stay in registers, all their tiles loaded
before any is used, read once and written once; several tiles rather than one, so that a row of 600 needs no
1,024 lanes. Longer rows are looped over with a running (shift, sum) in every lane (Milakov and Gimelshein's
online softmax) and read again to write the quotients. The row length is a compile-time constant, and rows
that do not start on 16-byte boundaries are moved in whole vectors all the same, but for their two edges.

With TRITON_INTERPRET=1 set before the import, the same kernel runs in Triton's interpreter on CPU tensors.
"""

from importlib.metadata import version

import numpy as np
import torch
import triton
import triton.language as tl

from minikernel.ops.softmax_triton_configs import candidates, default_config, in_lab_grid, specialization
from minikernel.ops.softmax_triton_rows import (
    FUSION,
    INTERPRETED,
    LONGEST_UNPACKED,
    check_operand,
    computed_anew,
    edge_columns,
    load_tiles,
    on_device_of,
    place,
)
from minilab import LabError

# This rung adds to `triton_textbook` tiles that fit the row, several rows a program and warps that are tuned. At
# 524,288 x 600 float32: 583 us after 626 on an H200, 102 % of a copy's bandwidth; 828 us after 835 on an H100, 101 %.
__all__ = ["candidates", "default_config", "in_lab_grid", "launch", "softmax"]


def round_fused_multiply_add_once() -> None:
    """Give Triton's interpreter a fused multiply-add that rounds once, as hardware's does.

    Before Triton 3.9 it multiplied and added in float32, which loses just what `exponential_accurate`
    recovers. float64 holds the product of two float32 numbers exactly.
    """
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def create_fma(self, x, y, z):
        # the product is exact in float64, so that rounding to float32 below is the one that counts
        exact = x.data.astype(np.float64) * y.data + z.data
        return TensorHandle(exact.astype(x.data.dtype), x.dtype.scalar)

    InterpreterBuilder.create_fma = create_fma


if INTERPRETED and tuple(map(int, version("triton").split(".")[:2])) < (3, 9):
    round_fused_multiply_add_once()


@triton.jit
def exponential_for_sum(x, shift):
    """exp(x - shift) for sums and 16-bit results: its error grows with the distance, as its value shrinks."""
    return tl.exp2((x - shift) * 1.4426950408889634)


@triton.jit
def exponential_accurate(x, shift):
    """exp(x - shift) to about 3e-7 relative at any distance, for an integer shift.

    What the subtraction and the product with log2(e) round off is recovered exactly (fast two-sum; fused
    multiply-add) and put back to first order; `cuda/common.cuh` explains the steps. Where the power is 0
    there is nothing to correct, and the correction of a masked entry is NaN.
    """
    difference = x - shift
    lost = x - (difference + shift)
    scaled = difference * 1.4426950216293335
    correction = tl.fma(difference, 1.3349758e-8, lost)
    correction = tl.fma(tl.fma(difference, 1.4426950216293335, -scaled), 0.6931471805599453, correction)
    power = tl.exp2(scaled)
    return tl.fma(power, tl.where(power > 0, correction, 0.0), power)


@triton.jit
def exponential(x, shift, ACCURATE: tl.constexpr):
    if ACCURATE:
        return exponential_accurate(x, shift)
    else:
        return exponential_for_sum(x, shift)


@triton.jit
def largest(tiles, TILES: tl.constexpr):
    """The elementwise maximum of the tiles, float32."""
    peak = tiles[0].to(tl.float32)
    for tile in tl.static_range(1, TILES):
        peak = tl.maximum(peak, tiles[tile].to(tl.float32))
    return peak


def candidates_of_call(configs: list[triton.Config], arguments: dict, **_) -> list[triton.Config]:
    """The configurations that Triton's autotuner tries for one call."""
    rows, cols, itemsize = arguments["rows"], arguments["cols"], arguments["x"].element_size()
    # What the kernel is launched with follows from the shape as
    # well, so that the autotuner's list is made for each call.
    keywords = [specialization(cols, config, itemsize) for config in candidates(rows, cols)]
    return [triton.Config({name: each.pop(name) for name in ("BLOCK", "ROWS", "TILES")}, **each) for each in keywords]


@triton.autotune(
    # Replaced call by call; two, because Triton tunes nothing where there is one.
    configs=[triton.Config({"BLOCK": 1024, "ROWS": 1, "TILES": 1}, num_warps=warps) for warps in (4, 8)],
    key=["cols", "rows_bucket"],
    prune_configs_by={"early_config_prune": candidates_of_call},
)
# Else Triton would compile the kernel once more for a number of rows that is 1 or divides by 16.
@triton.jit(do_not_specialize=["rows", "rows_bucket"])
def softmax_kernel(
    y,  # (rows, cols), contiguous: the probabilities
    x,  # (rows, cols), contiguous: the logits
    rows,
    rows_bucket,  # rows rounded up to a power of two: tuned once a bucket
    cols: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    TILES: tl.constexpr,  # loaded at once: the whole row if it fits
):
    dtype: tl.constexpr = x.dtype.element_ty
    result_dtype: tl.constexpr = y.dtype.element_ty  # that of the logits, or float32
    ACCURATE: tl.constexpr = result_dtype == tl.float32
    PACKED: tl.constexpr = dtype != tl.float32 and cols > LONGEST_UNPACKED
    VECTOR: tl.constexpr = 128 // dtype.primitive_bitwidth
    EDGES: tl.constexpr = cols % VECTOR != 0
    lane, inside, start, begin, count = place(rows, cols, ROWS, BLOCK, VECTOR)
    # What lies before the first whole 16-byte vector and after the last one is loaded element by element.
    if EDGES:
        edge = edge_columns(begin - start, count, VECTOR)
        edge_mask = inside & (edge < cols)
        edge_logits = tl.load(x + start + edge, mask=edge_mask, other=float("-inf")).to(tl.float32)
    # from here on all addresses are multiples of 16 bytes, as the compiler can tell
    x += begin
    y += begin

    # All tiles are loaded before any is used: as many loads in flight as the row has tiles.
    if cols <= TILES * BLOCK:
        tiles = load_tiles(x, lane, 0, count, inside, float("-inf"), TILES)
        maximum = tl.max(largest(tiles, TILES), axis=1, keep_dims=True)
        if EDGES:
            maximum = tl.maximum(maximum, tl.max(edge_logits, axis=1, keep_dims=True))
        # The maximum rounded down: any shift near it does, and an integer one can be corrected for.
        shift = tl.floor(maximum)
        # Added up lane by lane first: lanes exchange once for a row, not once for a tile.
        sums = tl.zeros([ROWS, BLOCK], tl.float32)
        numerators = ()
        for tile in tl.static_range(TILES):
            logits = tiles[tile]
            if PACKED:
                logits = computed_anew(logits, shift)
            numerator = exponential(logits.to(tl.float32), shift, ACCURATE)
            sums += numerator
            numerators += (numerator,)  # type: ignore[assignment]
        total = tl.sum(sums, axis=1, keep_dims=True)
    else:
        # The shifts start finite: a lane that meets only -infinity has a sum of 0 and no NaN.
        lane_shift = tl.full([ROWS, BLOCK], -3.4028234663852886e38, tl.float32)
        sums = tl.zeros([ROWS, BLOCK], tl.float32)
        compensation = tl.zeros([ROWS, BLOCK], tl.float32)
        for first in range(0, cols, TILES * BLOCK):
            tiles = load_tiles(x, lane, first, count, inside, float("-inf"), TILES)
            higher = tl.maximum(lane_shift, tl.floor(largest(tiles, TILES)))
            # What was summed around the old shift is brought down to the new one; 1 where the shift stays.
            rescale = exponential_for_sum(lane_shift, higher)
            lane_shift = higher
            term = -compensation * rescale
            for tile in tl.static_range(TILES):
                term += exponential_for_sum(tiles[tile].to(tl.float32), lane_shift)
            # Kahan's sum: a lane adds hundreds of terms.
            sums *= rescale
            next_sums = sums + term
            compensation = (next_sums - sums) - term
            sums = next_sums
        shift = tl.max(lane_shift, axis=1, keep_dims=True)
        if EDGES:
            shift = tl.maximum(shift, tl.floor(tl.max(edge_logits, axis=1, keep_dims=True)))
        # each lane's sum is around a shift of its own
        total = tl.sum(sums * exponential_for_sum(lane_shift, shift), axis=1, keep_dims=True)

    if EDGES:
        edge_numerator = exponential(edge_logits, shift, ACCURATE)
        total += tl.sum(edge_numerator, axis=1, keep_dims=True)
    # one division a row, then products: a division an element costs several instructions
    scale = 1.0 / total
    if cols <= TILES * BLOCK:
        for tile in tl.static_range(TILES):
            if PACKED:
                # 16-bit rows of many columns were held packed, without
                # room for exponentials: they are computed once more.
                numerator = exponential(computed_anew(tiles[tile], total).to(tl.float32), shift, ACCURATE)
            else:
                numerator = numerators[tile]
            col = tile * BLOCK + lane
            tl.store(y + col, (numerator * scale).to(result_dtype), mask=inside & (col < count))
    else:
        # The last tiles first: they are the ones still in the caches.
        last = (cols - 1) // (TILES * BLOCK) * (TILES * BLOCK)
        for back in range(0, cols, TILES * BLOCK):
            first = last - back
            tiles = load_tiles(x, lane, first, count, inside, float("-inf"), TILES)
            for tile in tl.static_range(TILES):
                col = first + tile * BLOCK + lane
                numerator = exponential(tiles[tile].to(tl.float32), shift, ACCURATE)
                tl.store(y + col, (numerator * scale).to(result_dtype), mask=inside & (col < count))
    if EDGES:
        tl.store(y + (start - begin) + edge, (edge_numerator * scale).to(result_dtype), mask=edge_mask)


def launch(x: torch.Tensor, y: torch.Tensor, config: dict[str, int]):
    """Launch one configuration over contiguous `x` into `y`, which is like it or float32; returns Triton's kernel."""
    cols = x.shape[-1]
    rows = x.numel() // cols
    grid = (triton.cdiv(rows, config["ROWS"]),)
    keywords = specialization(cols, config, x.element_size())
    # its limits of registers are for results of the logits' dtype
    if y.dtype != x.dtype:
        keywords["maxnreg"] = None
    with on_device_of(x):
        # `.fn` is the kernel without its autotuner
        return softmax_kernel.fn[grid](y, x, rows, rows, cols, **keywords, **FUSION)


def softmax(x: torch.Tensor, config: dict[str, int] | None = None, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Softmax over the last axis of `x`: any shape, float32, bfloat16 or float16.

    With `config` ({"BLOCK", "ROWS", "num_warps"}, as `autotune.json` holds it) that one is launched and
    nothing is tuned; without, Triton's autotuner picks at the first call of each width and power of two
    of rows. A tensor that is not contiguous is copied first. `dtype`: of the result, that of `x` or
    float32, which out of 16 bits takes no second pass and is right to float32's digits.

    Raises:
        LabError: `x` is not on a CUDA device (and the interpreter is off), or there is no kernel from its dtype to
            that of the result.
    """
    x = check_operand(x)
    if dtype not in (None, x.dtype, torch.float32):
        raise LabError(
            f"the Triton kernel writes {x.dtype}, as it reads, or float32, not {dtype}; use minikernel.softmax, "
            "which casts first."
        )
    contiguous = x.contiguous() if x.dim() else x.reshape(1)
    y = torch.empty_like(contiguous, dtype=dtype)
    if not x.numel():
        return y
    cols = contiguous.shape[-1]
    if config is None and INTERPRETED:
        config = default_config(cols)
    if config is not None:
        launch(contiguous, y, config)
    else:
        rows = x.numel() // cols
        with on_device_of(x):
            softmax_kernel[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](
                y, contiguous, rows, triton.next_power_of_2(rows), cols, **FUSION
            )
    return y.view(x.shape)
