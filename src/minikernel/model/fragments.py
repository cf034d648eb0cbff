"""MiniGPT's weights in the order in which tensor cores take them (`tiles.cuh`), for the forward pass in one kernel.

A matrix (out, in) is cut into pieces of 8 outputs and 16 features; a lane of a warp has four numbers of each, and what
the 32 lanes read lies side by side. A float32 is split into two float16, x = high + low, which together hold 22 bits;
a bfloat16 is one. The LayerNorm before a matrix is in it: W diag(w) and b + W c.
"""

import numpy as np

from minilab import LabError
from minimodel.model_config import MiniGPTConfig

WIDTH, HEADS = 64, 4
OUTPUTS, FEATURES = 8, 16  # of a piece
# what the kernels have registers and shared memory for
MOST_WORDS, MOST_POSITIONS = 2048, 128
FLOAT16_ROOM = 60000.0  # float16 ends at 65504
SCALED_EXPONENT = 12  # the largest weight of a matrix is scaled to lie in [2^11, 2^12)


def check_fits(config: MiniGPTConfig) -> None:
    """Refuse a model of other sizes than the kernels are written for.

    Raises:
        LabError: its width, number of heads, words or positions are not the kernels'.
    """
    if (config.n_embd, config.n_head) != (WIDTH, HEADS):
        raise LabError(
            f"the forward pass in one kernel has n_embd {WIDTH} and n_head {HEADS}, and this model {config.n_embd} and "
            f"{config.n_head}; call the model itself."
        )
    for what, given, most in (
        ("words", config.vocab_size, MOST_WORDS),
        ("positions", config.block_size, MOST_POSITIONS),
    ):
        if given > most:
            raise LabError(
                f"the forward pass in one kernel has at most {most} {what}, and this model {given}; call the model "
                "itself."
            )


def check_range(config: MiniGPTConfig, arrays: dict[str, np.ndarray]) -> None:
    """Refuse float32 weights with which a split number could leave float16's range, whatever the ids.

    What leaves a LayerNorm has a norm of at most sqrt(64) = 8, so no output of the matrix behind it is larger than 8
    times its row's norm and its bias; a value mixed by attention is no larger than the largest value. The head's
    outputs are not split.

    Raises:
        LabError: a query, a key, a value or a hidden activation could be larger than 60,000.
    """
    # The outputs of qkv and fc are split into float16 again; those of the two projections go into the stream.
    for linear, norm in linears(config)[:-1]:
        if norm is None:
            continue
        weight, bias = folded(arrays, linear, norm)
        # Cauchy and Schwarz: |w x + b| <= |w| |x| + |b|, and a row that leaves a LayerNorm has |x| <= 8.
        reach = (np.sqrt(WIDTH) * np.linalg.norm(weight, axis=1) + np.abs(bias)).max()
        if not reach <= FLOAT16_ROOM:  # NaN is not either
            raise LabError(
                f"the forward pass in one kernel splits numbers into float16, and those of {linear} could reach "
                f"{reach:.3g}, above {FLOAT16_ROOM:,.0f}; call the model itself."
            )


def linears(config: MiniGPTConfig) -> list[tuple[str, str | None]]:
    """Each linear layer in the order of the forward pass, with the LayerNorm before it, if there is one."""
    found: list[tuple[str, str | None]] = []
    for i in range(config.n_layer):
        found += [(f"blocks.{i}.attention.qkv", f"blocks.{i}.ln_1"), (f"blocks.{i}.attention.proj", None)]
        found += [(f"blocks.{i}.mlp.fc", f"blocks.{i}.ln_2"), (f"blocks.{i}.mlp.proj", None)]
    return [*found, ("lm_head", "ln_f")]


def folded(arrays: dict[str, np.ndarray], linear: str, norm: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Weight (out, in) and bias (out,) of a linear layer, float64, with those of the LayerNorm before it in them."""
    weight, bias = (arrays[f"{linear}.{part}"].astype(np.float64) for part in ("weight", "bias"))
    if norm is None:
        return weight, bias
    # W (diag(w) n + c) + b = (W diag(w)) n + (W c + b), with n the normalised row; in float64, rounded once later.
    return weight * arrays[f"{norm}.weight"], bias + weight @ arrays[f"{norm}.bias"].astype(np.float64)


def pieces(weight: np.ndarray, dtype: str) -> tuple[np.ndarray, float]:
    """A matrix (out, in) as a warp reads it, and by what a product with it must be multiplied.

    `in` is a multiple of 16; outputs are filled up with zeros to a multiple of 8. Float32 numbers are scaled by a power
    of two before they are split, so that the low halves do not fall below float16's smallest: products are as much too
    large, and the factor, exact, puts them right.

    Args:
        weight: (out, in).
        dtype: `float32`, of which a lane has four words (two of high halves, two of low ones), or `bfloat16`, of which
            it has two.

    Returns:
        (n_tiles, chunks, 32, words) uint32, and the factor: 1 for bfloat16.
    """
    outputs, features = weight.shape
    rows = -(-outputs // OUTPUTS) * OUTPUTS
    # float16 is coarse below 2^-14: the low half of a small weight would lose its bits there.
    scale = 2.0 ** (SCALED_EXPONENT - int(np.frexp(np.abs(weight).max())[1])) if dtype == "float32" else 1.0
    padded = np.concatenate([weight * scale, np.zeros((rows - outputs, features))]).astype(np.float32)
    # (n_tile, g, chunk, half, t, pair) -> (n_tile, chunk, g, t, half, pair)
    split = padded.reshape(rows // OUTPUTS, OUTPUTS, features // FEATURES, 2, 4, 2).transpose(0, 2, 1, 4, 3, 5)
    # Lane 4 g + t: output g, features 2 t, 2 t + 1, 8 + 2 t, 9 + 2 t of a chunk, as mma's right operand wants them.
    lanes = np.ascontiguousarray(split).reshape(rows // OUTPUTS, features // FEATURES, 32, 4)
    if dtype == "bfloat16":
        return to_bfloat16(lanes).view(np.uint32), 1.0
    high = lanes.astype(np.float16)
    # exact: a float16 that was rounded from a float32 lies within a factor of two of it
    low = (lanes - high.astype(np.float32)).astype(np.float16)
    return np.ascontiguousarray(np.concatenate([high, low], -1)).view(np.uint32), 1 / scale


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 rounded to the nearest bfloat16, ties to even, as uint16; none of them NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    # add half of what is cut off, and one more where the last bit that stays is odd: ties go to even
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
