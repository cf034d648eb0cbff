"""What both Triton kernels begin with: where a program's rows lie, how they are loaded, which tensors are taken."""

import os
from contextlib import AbstractContextManager, nullcontext

import torch
import triton
import triton.language as tl

from minikernel.ops.operands import readable
from minikernel.ops.softmax_triton_configs import PACKED_COLS
from minilab import LabError

# Triton reads the variable when it is imported, so that neither can change its mind later.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
COMPILED = tl.constexpr(not INTERPRETED)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LONGEST_UNPACKED = tl.constexpr(PACKED_COLS)
# Whether products and sums are contracted, given at each launch: what Triton does where nobody says it hangs on an
# environment variable, and from Triton 3.10 on it does not.
FUSION = {"enable_fp_fusion": True}


def check_operand(x: torch.Tensor) -> torch.Tensor:
    """`x` as `readable` gives it; a tensor that the Triton kernels cannot take is refused.

    Raises:
        LabError: `x` is not on a CUDA device (and the interpreter is off), its dtype has no kernel, or no kernel can
            read it.
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
    return readable("the Triton kernel", x)


def on_device_of(x: torch.Tensor) -> AbstractContextManager:
    """Make the device of `x` current: Triton launches on that one, wherever its tensors are."""
    # in a traced graph whoever compiles it sees to that; a CPU tensor, in the interpreter, changes nothing
    return nullcontext() if torch.compiler.is_compiling() else torch.cuda.device_of(x)


@triton.jit
def place(rows, cols: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, VECTOR: tl.constexpr):
    """Where this program's rows lie.

    Returns: the lanes of a tile, which of ROWS rows there are, the elements at which they begin, and `whole_vectors`
    of them.
    """
    # 64 bits: 2^31 elements are 3.6 million rows of 600, and cards hold more
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, BLOCK)[None, :]
    inside = row < rows
    start = row * cols
    begin, count = whole_vectors(start, cols, VECTOR)
    return lane, inside, start, begin, count


@triton.jit
def whole_vectors(start, cols: tl.constexpr, VECTOR: tl.constexpr):
    """The 16-byte vectors that lie wholly in the row that begins at element `start`: (first element, elements).

    Rounding by a constant shows the compiler that both are multiples of VECTOR, so that it moves vectors.
    """
    if cols % VECTOR == 0:
        return start, cols
    else:
        # up to the next boundary, down from the row's end: at most VECTOR - 1 elements are left over on either side
        begin = (start + VECTOR - 1) // VECTOR * VECTOR
        return begin, ((start + cols) // VECTOR * VECTOR - begin).to(tl.int32)


@triton.jit
def edge_columns(head, count, VECTOR: tl.constexpr):
    """The columns that `whole_vectors` leaves: the first `head`, and those past its `count` elements."""
    # one tile for both ends: the first `head` lanes stand before the vectors, the others behind
    edge = tl.arange(0, 2 * VECTOR)[None, :]
    return edge + tl.where(edge < head, 0, tl.maximum(count, 0))


@triton.jit
def load_tiles(x, lane, first, count, inside, other, TILES: tl.constexpr):
    """TILES tiles of a row from column `first` on, as a tuple; `other` from column `count` on.

    The L2 cache is to keep them over what is written, as `cuda/parts.cuh` explains.
    """
    tiles = ()
    for tile in tl.static_range(TILES):
        col = first + tile * lane.shape[1] + lane
        tiles += (tl.load(x + col, mask=inside & (col < count), other=other, eviction_policy="evict_last"),)  # type: ignore[assignment]
    return tiles


@triton.jit
def computed_anew(values, reduced):
    """`values`, of which the compiler no longer knows that it has widened them to float32 before.

    Else it would keep what it widened, a register each, where two 16-bit elements fit. It cannot know that
    a reduction's result is no NaN; where it is one, so is the whole row.
    """
    if COMPILED:
        # 0 but for a NaN; the compiler cannot tell, so that x ^ flip is a new value to it
        flip = (reduced != reduced).to(tl.int16)
        return tl.inline_asm_elementwise(
            "xor.b32 $0, $1, $2;", "=r,r,r", [values, flip], dtype=values.dtype, is_pure=True, pack=2
        )
    else:
        return values
