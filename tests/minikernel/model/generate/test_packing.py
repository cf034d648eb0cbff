"""The blocks' shares, taken together, are the model: the kernel's steps in NumPy, block by block."""

import numpy as np
import pytest

from minikernel.model.generate.packing import (
    BLOCKS,
    SHARED_BYTES,
    THREADS,
    WARPS,
    block_floats,
    check_fits,
    embedding,
    packed,
    shared_bytes,
)
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT

SIZES = MiniGPTConfig(vocab_size=70, block_size=20, n_layer=2, n_head=4, n_embd=64)


class Share:
    """Reads a block's floats in the order of write_text.cu."""

    def __init__(self, floats):
        self.floats, self.place = floats, 0

    def vector(self, size):
        self.place += size
        return self.floats[self.place - size : self.place]

    def rows_of_warps(self, rows):
        """(rows, 64): what each lane reads, two columns of two rows at a step, put back where it belongs."""
        pieces = self.vector(rows * 64).reshape(-1, THREADS, 2, 2)
        made = np.empty((rows, 64))
        for step, thread, row in np.ndindex(*pieces.shape[:3]):
            warp, lane = divmod(thread, 32)
            made[warp * rows // WARPS + 2 * step + row, 2 * lane : 2 * lane + 2] = pieces[step, thread, row]
        return made

    def rows_of_eight_lanes(self):
        """(64, 32): eight lanes read four columns each of two rows."""
        pieces = self.vector(64 * 32).reshape(2, THREADS, 4)
        made = np.empty((64, 32))
        for step, thread in np.ndindex(2, THREADS):
            made[thread // 8 * 2 + step, thread % 8 * 4 : thread % 8 * 4 + 4] = pieces[step, thread]
        return made


def scaled(x):
    """LayerNorm of what has no mean."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def logits_of(sizes, blocks, arrays, ids):
    """The logits (T, V) that the cluster makes for ids (T,), and the embeddings (V, 64) that its blocks hold."""
    shares = [Share(floats.astype(np.float64)) for floats in blocks]
    words = -(-sizes.vocab_size // (16 * BLOCKS)) * 16
    matrices = [
        [(share.rows_of_warps(64), share.rows_of_warps(32), share.rows_of_eight_lanes()) for _ in range(sizes.n_layer)]
        for share in shares
    ]
    heads = [share.rows_of_warps(words) for share in shares]
    biases = [[[share.vector(size) for size in (64, 32, 64, 64)] for _ in range(sizes.n_layer)] for share in shares]

    x = (embedding(arrays["token_embedding"])[ids] + embedding(arrays["position_embedding"])[: len(ids)]).astype(float)
    future = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    for layer in range(sizes.n_layer):
        added = np.zeros_like(x)
        for block in range(BLOCKS):
            rows = scaled(x) @ matrices[block][layer][0].T + biases[block][layer][0]
            query, key, value = rows[:, :16], rows[:, 16:32], rows[:, 32:]
            weights = np.exp2(query @ key.T + future)
            added[:, block % 2 * 32 :][:, :32] += weights / weights.sum(-1, keepdims=True) @ value
        x = x + added + biases[0][layer][2]
        added = [
            gelu(scaled(x) @ matrices[block][layer][1].T + biases[block][layer][1]) @ matrices[block][layer][2].T
            for block in range(BLOCKS)
        ]
        x = x + sum(added) + biases[0][layer][3]
        assert np.abs(x.mean(-1)).max() < 1e-6 * np.abs(x).max()
    logits = [scaled(x) @ head.T + share.vector(words) for head, share in zip(heads, shares, strict=True)]
    embeddings = [share.vector(words * 64).reshape(words, 64) for share in shares]
    assert all(share.place == len(share.floats) for share in shares)
    return np.concatenate(logits, 1)[:, : sizes.vocab_size], np.concatenate(embeddings)[: sizes.vocab_size]


def test_the_blocks_together_make_the_models_logits():
    model = NumpyMiniGPT.initialise(SIZES, seed=5)
    model.parameters[:] = np.random.default_rng(6).normal(0, 0.3, model.parameters.shape)  # biases and norms too
    blocks = packed(SIZES, model.arrays)
    assert blocks.shape == (BLOCKS, block_floats(SIZES))
    ids = np.random.default_rng(7).integers(0, SIZES.vocab_size, 20)
    exact = model.astype(np.float64).forward(ids[None])[0]
    logits, embeddings = logits_of(SIZES, blocks, model.arrays, ids)
    assert np.abs(logits - exact).max() < 1e-5 * np.abs(exact).max()
    assert embeddings.tolist() == embedding(model.arrays["token_embedding"]).tolist()


def test_the_labs_model_fits_with_room_to_spare():
    assert shared_bytes(MiniGPTConfig(vocab_size=600, block_size=128)) < SHARED_BYTES


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_embd": 32}, "n_embd 64 and n_head 4, and this one 32 and 4"),
        ({"n_head": 8}, "and this one 64 and 8"),
        ({"block_size": 129}, "at most 128 positions, and this one 129"),
        ({"vocab_size": 2049}, "at most 2048 words, and this one 2049"),
        ({"n_layer": 6}, "takes 2.* bytes of shared memory, and a block has 232,448"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change, said):
    with pytest.raises(LabError, match=said):
        check_fits(MiniGPTConfig(**{"vocab_size": 600, "block_size": 128, **change}))
