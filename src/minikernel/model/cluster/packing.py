"""MiniGPT's weights for a cluster of blocks (`forward.cu`): each block's, in the order of their use.

Every reader of the residual stream is a LayerNorm, which takes the stream's mean over its columns away. So the mean is
taken out of all that is added to the stream: of both embeddings, and of the rows of the two matrices that write to it.
LayerNorm is then a factor for each row. A float32 stream is also scaled by a power of two, for it is split into two
float16: the largest value that any ids could lead to stays in float16's range.
"""

from typing import NamedTuple

import numpy as np

from minikernel.model.fragments import FLOAT16_ROOM, HEADS, WIDTH, folded, pieces
from minimodel.model_config import MiniGPTConfig

HEAD, HIDDEN, CHUNKS, ROWS = WIDTH // HEADS, 4 * WIDTH, WIDTH // 16, 16
BLOCKS = HEADS  # of a cluster: each has a head, and its share of the hidden columns and of the words
WARPS = 4  # of a block that compute
EPSILON = 1e-5
SHARED_BYTES = 232448  # that a block may have, on compute capability 9.0
LARGEST_SCALE = 2.0**12


class Packed(NamedTuple):
    """A model's arrays as the kernel takes them."""

    weights: np.ndarray  # (blocks, tiles of a block, CHUNKS, 32, words) uint32
    constants: np.ndarray  # (blocks, floats of a block) float32
    tokens: np.ndarray  # (V, d) float32
    places: np.ndarray  # (block_size, d) float32


def packed(config: MiniGPTConfig, arrays: dict[str, np.ndarray], dtype: str) -> Packed:
    """Pack a model's arrays, named as `MiniGPTConfig.shapes` names them, for dtype `float32` or `bfloat16`.

    `check_fits` and, for float32, `check_range` (fragments.py) have let them pass, and `stream_scale` is not 0.
    """
    scale = stream_scale(config, arrays) if dtype == "float32" else 1.0
    embeddings = [
        (scale * _centred(arrays[f"{name}_embedding"].astype(np.float64), -1)).astype(np.float32)
        for name in ("token", "position")
    ]
    layers = [_layer(config, arrays, layer, dtype, scale) for layer in range(config.n_layer)]
    head = _head(config, arrays, dtype)
    shares = [_share(layers, head, scale, rank) for rank in range(BLOCKS)]
    return Packed(np.stack([share[0] for share in shares]), np.stack([share[1] for share in shares]), *embeddings)


@np.errstate(invalid="ignore")  # weights that are not finite
def stream_scale(config: MiniGPTConfig, arrays: dict[str, np.ndarray]) -> float:
    """The power of two with which the float32 stream stays below float16's range, whatever the ids, and near it.

    0: the stream itself could leave it, or a weight is not finite.
    """
    # The largest |value| that each column of the stream can reach: embeddings, then each layer's contributions.
    reach = sum(
        np.abs(_centred(arrays[f"{name}_embedding"].astype(np.float64), -1)).max(0) for name in ("token", "position")
    )
    for layer in range(config.n_layer):
        for first, norm, second, outputs in (
            ("attention.qkv", "ln_1", "attention.proj", slice(2 * WIDTH, 3 * WIDTH)),
            ("mlp.fc", "ln_2", "mlp.proj", slice(0, HIDDEN)),
        ):
            # What comes out of a LayerNorm and the first matrix is at most sqrt(64) |w| + |b| in each output; attention
            # takes averages of values, which are no larger.
            weight, bias = folded(arrays, f"blocks.{layer}.{first}", f"blocks.{layer}.{norm}")
            largest = np.sqrt(WIDTH) * np.linalg.norm(weight, axis=1) + np.abs(bias)  # GELU(x) is no larger than x is
            weight, bias = (_centred(array, 0) for array in folded(arrays, f"blocks.{layer}.{second}", None))
            reach = reach + np.abs(weight) @ largest[outputs] + np.abs(bias)
    most = reach.max()
    if not most <= FLOAT16_ROOM:  # NaN is not either
        return 0.0
    return min(LARGEST_SCALE, 2.0 ** np.floor(np.log2(FLOAT16_ROOM / most))) if most else 1.0


def words_of_warp(config: MiniGPTConfig) -> int:
    """Tiles of 8 words of the LM head in a warp."""
    return -(-config.vocab_size // (8 * BLOCKS * WARPS))


def shared_bytes(config: MiniGPTConfig, dtype: str) -> int:
    """Bytes of a block's shared memory, what `Plan` in forward.cu adds up; 0: the model does not fit."""
    tile = 32 * (16 if dtype == "float32" else 8)
    # As `Plan` in block.cuh: stream and mixed values, hidden columns, what three peers send, squares, tops; then a
    # barrier for each stage, release and exchange; factors and biases; the ring has the rest.
    activations = (2 * 8 + HIDDEN // 8 // BLOCKS) * tile + (BLOCKS - 1) * 8 * 32 * 16
    activations += ROWS * WARPS * 4 + ROWS * BLOCKS * WARPS * 8
    words = words_of_warp(config)
    barriers = 7 * config.n_layer + 2 * -(-words // 2) + 2 + WARPS
    constants = 4 + config.n_layer * (4 + 3 * HEAD + 2 * WIDTH + HIDDEN // BLOCKS) + words * WARPS * 8
    before = _rounded(_rounded(activations + 8 * barriers, 16) + 4 * constants, 128)
    of_layer = 6 + 8 + 2 * 8
    ring = min((SHARED_BYTES - before) // (CHUNKS * tile), config.n_layer * of_layer + words * WARPS)
    # 16 tiles are the two stages that must be there together
    return before + ring * CHUNKS * tile if ring >= 16 else 0


def _layer(config: MiniGPTConfig, arrays: dict[str, np.ndarray], layer: int, dtype: str, scale: float) -> dict:
    """A layer's pieces (n_tiles, chunks, 32, words), factors and biases."""
    name = f"blocks.{layer}"
    qkv, qkv_bias = folded(arrays, f"{name}.attention.qkv", f"{name}.ln_1")
    scores = np.log2(np.e) / np.sqrt(HEAD)  # in the queries: a score is then an exponent of two
    qkv, qkv_bias = (np.concatenate([array[:WIDTH] * scores, array[WIDTH:]]) for array in (qkv, qkv_bias))
    proj, proj_bias = (_centred(array, 0) for array in folded(arrays, f"{name}.attention.proj", None))
    fc, fc_bias = folded(arrays, f"{name}.mlp.fc", f"{name}.ln_2")
    out, out_bias = (_centred(array, 0) for array in folded(arrays, f"{name}.mlp.proj", None))
    made = {part: pieces(weight, dtype) for part, weight in (("qkv", qkv), ("proj", proj), ("fc", fc), ("out", out))}
    # The stream is `scale` times the model's: what is added to it is scaled, what a LayerNorm makes of it is not.
    factors = [made["qkv"][1], made["proj"][1] * scale, made["fc"][1], made["out"][1] * scale]
    biases = {"qkv": qkv_bias, "proj": proj_bias * scale, "fc": fc_bias, "out": out_bias * scale}
    return {"factors": factors, "biases": biases, **{part: array for part, (array, _) in made.items()}}


def _head(config: MiniGPTConfig, arrays: dict[str, np.ndarray], dtype: str):
    """The LM head's pieces and biases for each block, and its factor; words past the vocabulary are impossible."""
    weight, bias = folded(arrays, "lm_head", "ln_f")
    made, factor = pieces(weight, dtype)
    tiles = BLOCKS * WARPS * words_of_warp(config)
    # whole tiles for every warp; the words beyond the last have a bias of minus infinity, a probability of 0
    filled = np.zeros((tiles, *made.shape[1:]), np.uint32)
    filled[: len(made)] = made
    biases = np.full(8 * tiles, -np.inf)
    biases[: len(bias)] = bias
    return filled.reshape(BLOCKS, -1, *made.shape[1:]), biases.reshape(BLOCKS, -1), factor


def _share(layers: list[dict], head: tuple, scale: float, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """A block's tiles (tiles, CHUNKS, 32, words), and its constants."""
    words, word_biases, head_factor = head
    order = rank ^ np.arange(HEADS)  # its own head first
    of_hidden, hidden = (slice(rank * of // BLOCKS, (rank + 1) * of // BLOCKS) for of in (HIDDEN // 8, HIDDEN))
    # LayerNorm divides by the root of variance + epsilon; with the stream scaled, the variance is by scale^2.
    tiles, constants = [], [[EPSILON * scale**2, head_factor, 0, 0]]
    for layer in layers:
        # q, k and v of the block's head, two tiles of 8 dimensions each
        of_head = layer["qkv"].reshape(3, HEADS, 2, *layer["qkv"].shape[1:])[:, rank]
        out = layer["out"].reshape(8, BLOCKS, CHUNKS, *layer["out"].shape[2:])[:, rank]
        for part in (of_head, layer["proj"][:, order], layer["fc"][of_hidden], out):
            tiles.append(part.reshape(-1, *layer["qkv"].shape[1:]))
        biases = layer["biases"]
        qkv_bias = biases["qkv"].reshape(3, HEADS, HEAD)[:, rank]
        constants += [layer["factors"], qkv_bias.ravel(), biases["proj"], biases["fc"][hidden], biases["out"]]
    return (
        np.concatenate([*tiles, words[rank]]),
        np.concatenate([*constants, word_biases[rank]]).astype(np.float32),
    )


def _centred(array: np.ndarray, axis: int) -> np.ndarray:
    return array - array.mean(axis, keepdims=True)


def _rounded(number: int, to: int) -> int:
    return -(-number // to) * to
