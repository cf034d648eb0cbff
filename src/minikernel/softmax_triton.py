"""Row softmax in Triton: one kernel, and the configurations among which it is tuned.

A program takes ROWS rows. Rows of up to BLOCK columns stay in registers, read once and written once;
longer ones are looped over, BLOCK columns at a time, with a running (shift, sum) in every lane (Milakov
and Gimelshein's online softmax), and read again to write the quotients. The row length is a compile-time
constant: knowing that 600 is a multiple of 4, the compiler uses 16-byte loads, behind a mask too.

With TRITON_INTERPRET=1 set before the import, the same kernel runs in Triton's interpreter on CPU tensors.
"""

import os
from importlib.metadata import version

import numpy as np
import torch
import triton
import triton.language as tl

from minilab import LabError

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# The grid that the lab searches, and what `candidates` adds where it paid on an H200.
LAB_BLOCKS, LAB_WARPS = (256, 512, 1024, 2048), (2, 4, 8)
MOST_VALUES_PER_THREAD = 64
LARGEST_BLOCK, LARGEST_TILE = 8192, 4096  # columns; columns times rows where a program takes several rows


def round_fused_multiply_add_once() -> None:
    """Give Triton's interpreter a fused multiply-add that rounds once, as hardware's does.

    Before Triton 3.9 it multiplied and added in float32, which loses just what `exponential_accurate`
    recovers. float64 holds the product of two float32 numbers exactly.
    """
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def create_fma(self, x, y, z):
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


def candidates(rows: int, cols: int) -> list[dict[str, int]]:
    """The configurations worth trying for (rows, cols): the lab's grid, then what goes beyond it.

    The grid is BLOCK in {256, 512, 1024, 2048} times num_warps in {2, 4, 8}, one row a program. Beyond:
    one warp, several rows a program where the row fits, and blocks that hold rows of up to 8,192 columns.
    """
    configs = [{"BLOCK": block, "ROWS": 1, "num_warps": warps} for block in LAB_BLOCKS for warps in LAB_WARPS]
    fitting = min(triton.next_power_of_2(cols), LARGEST_BLOCK)
    most_rows = max(1, LARGEST_TILE // fitting) if fitting >= cols else 1
    for tile_rows in (1 << power for power in range(most_rows.bit_length())):
        for warps in (1, 2, 4, 8, 16):
            values = tile_rows * fitting / (32 * warps)
            config = {"BLOCK": fitting, "ROWS": tile_rows, "num_warps": warps}
            if 4 <= values <= MOST_VALUES_PER_THREAD and tile_rows <= rows and config not in configs:
                configs.append(config)
    return configs


def in_lab_grid(config: dict[str, int]) -> bool:
    """Whether a configuration is one of the lab's BLOCK x num_warps."""
    return config["ROWS"] == 1 and config["BLOCK"] in LAB_BLOCKS and config["num_warps"] in LAB_WARPS


def default_config(cols: int) -> dict[str, int]:
    """A configuration for rows of `cols` that nobody tuned: about 16 values a thread, at least one warp's worth."""
    block = min(triton.next_power_of_2(cols), LARGEST_BLOCK)
    rows = max(1, 512 // block)
    return {"BLOCK": block, "ROWS": rows, "num_warps": min(rows * block // 512, 16)}


def candidates_of_call(configs: list[triton.Config], arguments: dict, **_) -> list[triton.Config]:
    """The configurations that Triton's autotuner tries for one call."""
    return [
        triton.Config({"BLOCK": c["BLOCK"], "ROWS": c["ROWS"]}, num_warps=c["num_warps"])
        for c in candidates(arguments["rows"], arguments["cols"])
    ]


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": block, "ROWS": 1}, num_warps=warps) for block in LAB_BLOCKS for warps in LAB_WARPS
    ],
    key=["cols", "rows_bucket"],
    prune_configs_by={"early_config_prune": candidates_of_call},
)
@triton.jit(do_not_specialize=["rows", "rows_bucket"])
def softmax_kernel(
    y,  # (rows, cols), contiguous: the probabilities
    x,  # (rows, cols), contiguous: the logits
    rows,
    rows_bucket,  # rows rounded up to a power of two: tuned once a bucket
    cols: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    x += row * cols
    y += row * cols
    ACCURATE: tl.constexpr = x.dtype.element_ty == tl.float32

    if cols <= BLOCK:
        mask = (row < rows) & (col < cols)
        logits = tl.load(x + col, mask=mask, other=float("-inf")).to(tl.float32)
        # The maximum rounded down: any shift near it does, and an integer one can be corrected for.
        shift = tl.floor(tl.max(logits, axis=1, keep_dims=True))
        numerator = exponential(logits, shift, ACCURATE)
        scale = 1.0 / tl.sum(numerator, axis=1, keep_dims=True)
        tl.store(y + col, (numerator * scale).to(y.dtype.element_ty), mask=mask)
    else:
        # The shifts start finite: a lane that meets only -infinity has a sum of 0 and no NaN.
        shift = tl.full([ROWS, BLOCK], -3.4028234663852886e38, tl.float32)
        total = tl.zeros([ROWS, BLOCK], tl.float32)
        compensation = tl.zeros([ROWS, BLOCK], tl.float32)
        for first in range(0, cols, BLOCK):
            mask = (row < rows) & (first + col < cols)
            logits = tl.load(x + first + col, mask=mask, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(shift, tl.floor(logits))
            rescale = exponential_for_sum(shift, higher)
            shift = higher
            # Kahan's sum: a lane adds hundreds of terms.
            total *= rescale
            term = exponential_for_sum(logits, shift) - compensation * rescale
            next_total = total + term
            compensation = (next_total - total) - term
            total = next_total
        row_shift = tl.max(shift, axis=1, keep_dims=True)
        scale = 1.0 / tl.sum(total * exponential_for_sum(shift, row_shift), axis=1, keep_dims=True)
        for first in range(0, cols, BLOCK):
            mask = (row < rows) & (first + col < cols)
            logits = tl.load(x + first + col, mask=mask, other=float("-inf")).to(tl.float32)
            numerator = exponential(logits, row_shift, ACCURATE)
            tl.store(y + first + col, (numerator * scale).to(y.dtype.element_ty), mask=mask)


def launch(x: torch.Tensor, y: torch.Tensor, config: dict[str, int]):
    """Launch one configuration over contiguous `x` into `y`; returns Triton's compiled kernel."""
    cols = x.shape[-1]
    rows = x.numel() // cols
    grid = (triton.cdiv(rows, config["ROWS"]),)
    return softmax_kernel.fn[grid](y, x, rows, rows, cols, **config)


def softmax(x: torch.Tensor, config: dict[str, int] | None = None) -> torch.Tensor:
    """Softmax over the last axis of `x`: any shape, float32, bfloat16 or float16.

    With `config` ({"BLOCK", "ROWS", "num_warps"}, as `autotune.json` holds it) that one is launched and
    nothing is tuned; without, Triton's autotuner picks at the first call of each width and power of two
    of rows. A tensor that is not contiguous is copied first.

    Raises:
        LabError: `x` is not on a CUDA device (and the interpreter is off), or its dtype has no kernel.
    """
    if not (x.is_cuda or INTERPRETED):
        raise LabError(
            f"the Triton kernel takes CUDA tensors, not one on {x.device}; set TRITON_INTERPRET=1 before "
            "Python starts to run it in Triton's interpreter."
        )
    if x.dtype not in DTYPES:
        raise LabError(
            f"the Triton kernel takes float32, bfloat16 and float16, not {x.dtype}; "
            "use minikernel.softmax, which gives other dtypes to torch."
        )
    contiguous = x.contiguous() if x.dim() else x.reshape(1)
    y = torch.empty_like(contiguous)
    if not x.numel():
        return y
    cols = contiguous.shape[-1]
    if config is None and INTERPRETED:
        config = default_config(cols)
    if config is not None:
        launch(contiguous, y, config)
    else:
        rows = x.numel() // cols
        softmax_kernel[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](
            y, contiguous, rows, triton.next_power_of_2(rows), cols
        )
    return y.view(x.shape)
