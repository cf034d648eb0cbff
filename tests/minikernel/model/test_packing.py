"""The blocks' shares, taken together, are the model: the kernel's steps in NumPy, block by block."""

import numpy as np
import pytest

from minikernel.model.packing import BLOCKS, SHARED_BYTES, THREADS, block_floats, check_fits, packed, shared_bytes
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT

SIZES = MiniGPTConfig(vocab_size=70, block_size=20, n_layer=2, n_head=4, n_embd=64)


class Share:
    """Reads a block's floats in the order of generate.cu."""

    def __init__(self, floats):
        self.floats, self.place = floats, 0

    def vector(self, size):
        self.place += size
        return self.floats[self.place - size : self.place]

    def matrix(self, rows, columns, lanes):
        """What each thread reads of each of its rows, put back where it belongs."""
        groups, width = THREADS // lanes, columns // lanes
        pieces = self.vector(rows * columns).reshape(rows // groups, THREADS, width)
        made = np.empty((rows, columns))
        for step, thread in np.ndindex(pieces.shape[:2]):
            row, first = thread // lanes * (rows // groups) + step, thread % lanes * width
            made[row, first : first + width] = pieces[step, thread]
        return made


def normed(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layer_of(share):
    """(qkv, proj, fc, out) and their biases of the next layer in a block's floats."""
    matrices = [share.matrix(48, 64, 16), share.matrix(64, 8, 8), share.matrix(32, 64, 16), share.matrix(64, 32, 8)]
    return matrices, [share.vector(size) for size in (48, 64, 32, 64)]


def logits_of(sizes, blocks, arrays, ids):
    """The logits (T, V) that the cluster makes for ids (T,)."""
    shares = [Share(floats.astype(np.float64)) for floats in blocks]
    x = arrays["token_embedding"][ids] + arrays["position_embedding"][: len(ids)]
    future = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    for _ in range(sizes.n_layer):
        layers = [layer_of(share) for share in shares]
        sent = []
        for block, ((qkv, proj, _, _), (qkv_bias, _, _, _)) in enumerate(layers):
            query, key, value = np.split(normed(x) @ qkv.T + qkv_bias, 3, axis=1)
            weights = np.exp(query @ key.T / 4 + future)
            mixed = weights / weights.sum(-1, keepdims=True) @ value
            sent.append(mixed[:, 8 * (block % 2) :][:, :8] @ proj.T)
        x = x + sum(sent) + layers[0][1][1]
        sent = [gelu(normed(x) @ fc.T + fc_bias) @ out.T for (_, _, fc, out), (_, _, fc_bias, _) in layers]
        x = x + sum(sent) + layers[0][1][3]
    words = []
    for share in shares:
        rows = (len(share.floats) - share.place) // 65
        head, bias = share.matrix(rows, 64, 16), share.vector(rows)
        assert share.place == len(share.floats)
        words.append(normed(x) @ head.T + bias)
    return np.concatenate(words, 1)[:, : sizes.vocab_size]


def test_the_blocks_together_make_the_models_logits():
    model = NumpyMiniGPT.initialise(SIZES, seed=5)
    model.parameters[:] = np.random.default_rng(6).normal(0, 0.3, model.parameters.shape)  # biases and norms too
    blocks = packed(SIZES, model.arrays)
    assert blocks.shape == (BLOCKS, block_floats(SIZES))
    ids = np.random.default_rng(7).integers(0, SIZES.vocab_size, 20)
    exact = model.astype(np.float64).forward(ids[None])[0]
    assert np.abs(logits_of(SIZES, blocks, model.arrays, ids) - exact).max() < 1e-5 * np.abs(exact).max()


def test_the_labs_model_fits_with_room_to_spare():
    assert shared_bytes(MiniGPTConfig(vocab_size=600, block_size=128)) < SHARED_BYTES


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n_embd": 32}, "n_embd 64 and n_head 4, and this one 32 and 4"),
        ({"n_head": 8}, "and this one 64 and 8"),
        ({"block_size": 129}, "at most 128 positions, and this one 129"),
        ({"vocab_size": 2049}, "at most 2048 words, and this one 2049"),
        ({"n_layer": 5}, "takes 2.* bytes of shared memory, and a block has 232,448"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change, said):
    with pytest.raises(LabError, match=said):
        check_fits(MiniGPTConfig(**{"vocab_size": 600, "block_size": 128, **change}))
