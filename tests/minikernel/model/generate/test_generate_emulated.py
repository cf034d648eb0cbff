"""write_text.cu writes NumPy's tokens where there is no GPU: run on the CPU, in several orders of its threads."""

import numpy as np
import pytest
from emulator import COMPILER, Kernel

from minikernel.model.generate.launch import SOURCE
from minikernel.model.generate.packing import BLOCKS, THREADS, embedding, packed, shared_bytes
from minikernel.model.nvrtc import source
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.writing.generate import generate
from minimodel.writing.sampling import Sampling

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")
GREEDY = Sampling()
spared = pytest.mark.spared


@pytest.mark.parametrize(
    ("n_layer", "vocab_size", "block_size", "sequences", "given", "wanted", "sampling", "seed"),
    [
        (4, 600, 128, 1, 1, 5, GREEDY, 0),
        (4, 600, 128, 2, 3, 4, Sampling(0.7, 20, 9), 1),
        (3, 37, 17, 1, 13, 4, GREEDY, 0),
        (3, 37, 17, 1, 13, 4, GREEDY, 1),  # another order of the threads
        (6, 100, 16, 1, 5, 3, GREEDY, 1),  # more layers than registers hold
        pytest.param(1, 1, 2, 3, 1, 1, GREEDY, 0, marks=spared),
        pytest.param(4, 601, 127, 1, 120, 7, GREEDY, 1, marks=spared),
        pytest.param(4, 600, 128, 1, 1, 127, GREEDY, 0, marks=spared),
        pytest.param(2, 2048, 40, 1, 30, 10, GREEDY, 1, marks=spared),  # more words than registers hold
        pytest.param(5, 600, 16, 1, 2, 14, GREEDY, 0, marks=spared),
        pytest.param(3, 37, 17, 3, 9, 8, Sampling(1.0, None, 2**63 + 5), 1, marks=spared),
    ],
)
def test_it_writes_numpys_tokens(n_layer, vocab_size, block_size, sequences, given, wanted, sampling, seed):
    sizes = MiniGPTConfig(vocab_size=vocab_size, block_size=block_size, n_layer=n_layer)
    model = NumpyMiniGPT.initialise(sizes, seed=1)
    model.parameters *= 4  # far from uniform
    ids = np.random.default_rng(given).integers(0, vocab_size, (sequences, given))
    written, last = np.full((sequences, wanted), -1), np.full((sequences, vocab_size), np.nan, np.float32)
    tables = [embedding(model.arrays[f"{kind}_embedding"]) for kind in ("token", "position")]
    scalars = [np.int32(given), np.int32(wanted), np.float32(sampling.temperature)]
    scalars += [np.int32(min(sampling.top_k or vocab_size, vocab_size)), np.uint64(sampling.seed)]
    Kernel(source(SOURCE), f"write_text<{n_layer}, {vocab_size}, {block_size}>").launch(
        BLOCKS * sequences,
        THREADS,
        [packed(sizes, model.arrays), *tables, ids, written, last, *scalars],
        shared_bytes=shared_bytes(sizes),
        cluster=BLOCKS,
        seed=seed,
    )
    assert written.tolist() == generate(model, ids, wanted, sampling).tolist()
    exact = model.astype(np.float64).forward(np.concatenate([ids, written], 1)[:, :-1])[:, -1]
    assert np.abs(last - exact).max() < 2e-6 * np.abs(exact).max()
