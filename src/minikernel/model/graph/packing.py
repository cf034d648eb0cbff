"""The weights as the four kernels of the rung `graph` (`kernels.cu`) read them: what a block copies lies together.

Before a kernel's matrices come their biases, and what their products are to be multiplied by (`fragments.pieces`).
"""

from typing import NamedTuple

import numpy as np

from minikernel.model.fragments import WIDTH, check_fits, check_range, folded, pieces
from minimodel.model_config import MiniGPTConfig

HIDDEN, PIECES, WORDS_OF_PAIR = 4 * WIDTH, 4 * WIDTH // 16, 16
QKV_VECTORS, FFN_VECTORS = 3 * WIDTH + 4, WIDTH + HIDDEN + WIDTH + 4  # floats, as the source has them
NO_WORD = -1e30  # the bias of a word that is not in the vocabulary: its probability is zero, and no difference is NaN


class Packed(NamedTuple):
    """A model's weights, uint8 but for the embeddings.

    Attributes:
        qkv: (L, bytes of a layer).
        feed_forward: (L, bytes of a layer): the projection and the FFN.
        head: (bytes,).
        tokens: (V, d) float32.
        places: (block_size, d) float32.
    """

    qkv: np.ndarray
    feed_forward: np.ndarray
    head: np.ndarray
    tokens: np.ndarray
    places: np.ndarray


def packed(config: MiniGPTConfig, arrays: dict[str, np.ndarray], dtype: str, words: int) -> Packed:
    """Pack a model's float32 arrays, named as `MiniGPTConfig.shapes` names them.

    Args:
        config: the model's sizes.
        arrays: its parameters.
        dtype: `float32` or `bfloat16`.
        words: for how many the head has room, a multiple of 16.

    Raises:
        LabError: the model does not fit, or its numbers could leave float16's range.
    """
    check_fits(config)
    if dtype == "float32":
        check_range(config, arrays)
    # Stacked by layer: each layer's block of bytes is one address in the kernels' arguments.
    layers = range(config.n_layer)
    return Packed(
        np.stack([_qkv(arrays, f"blocks.{layer}", dtype) for layer in layers]),
        np.stack([_feed_forward(arrays, f"blocks.{layer}", dtype) for layer in layers]),
        _head(arrays, dtype, words),
        *(np.ascontiguousarray(arrays[f"{name}_embedding"], np.float32) for name in ("token", "position")),
    )


def order_of_words(words: int) -> np.ndarray:
    """The word of each of the head's outputs: of 16 words, the four of a lane in two tiles are neighbours."""
    # A lane has columns 2 t, 2 t + 1 of each tile: with this order its four words of two tiles are 4 t to 4 t + 3.
    tile, lane, element = np.ogrid[:2, :4, :2]
    return (
        WORDS_OF_PAIR * np.arange(words // WORDS_OF_PAIR)[:, None] + (4 * lane + 2 * tile + element).ravel()
    ).ravel()


def _qkv(arrays: dict[str, np.ndarray], block: str, dtype: str) -> np.ndarray:
    weight, bias = folded(arrays, f"{block}.attention.qkv", f"{block}.ln_1")
    made, factor = pieces(weight, dtype)
    return _joined([bias, [factor] * 4], [made])


def _feed_forward(arrays: dict[str, np.ndarray], block: str, dtype: str) -> np.ndarray:
    proj, proj_bias = folded(arrays, f"{block}.attention.proj", None)
    fc, fc_bias = folded(arrays, f"{block}.mlp.fc", f"{block}.ln_2")
    out, out_bias = folded(arrays, f"{block}.mlp.proj", None)
    made, factors = zip(*(pieces(weight, dtype) for weight in (proj, fc, out)), strict=True)
    # A piece is what 16 hidden columns need, in and out, so that a warp reads one stretch of memory a step.
    into = made[1].reshape(PIECES, -1)  # two tiles of 8 hidden columns, 4 chunks
    back = made[2].transpose(1, 0, 2, 3).reshape(PIECES, -1)  # their chunk, 8 tiles
    return _joined([proj_bias, fc_bias, out_bias, [*factors, 0]], [made[0], np.concatenate([into, back], 1)])


def _head(arrays: dict[str, np.ndarray], dtype: str, words: int) -> np.ndarray:
    weight, bias = folded(arrays, "lm_head", "ln_f")
    room = words - len(bias)
    # Filled up to whole tiles with words that have no weights, so that no product is a special case.
    weight = np.concatenate([weight, np.zeros((room, WIDTH))])[order_of_words(words)]
    made, factor = pieces(weight, dtype)
    return _joined([[factor] * 4, bias, np.full(room, NO_WORD)], [made])


def _joined(vectors: list, matrices: list[np.ndarray]) -> np.ndarray:
    numbers = np.concatenate(vectors).astype(np.float32)
    return np.concatenate([numbers.view(np.uint8), *(matrix.ravel().view(np.uint8) for matrix in matrices)])


def unit_bytes(dtype: str) -> int:
    """Bytes of 16 rows by 16 columns, as an operand of a product."""
    return {"float32": 1024, "bfloat16": 512}[dtype]
