"""A checkpoint to break: small, with every array random and as many of them square as the sizes allow."""

import numpy as np

from minimodel.checkpoint import Checkpoint
from minimodel.numpy_minigpt import MiniGPTConfig, NumpyMiniGPT

# With V = block_size = d, the embeddings and the head are square too, so a transposition fits in anywhere.
SQUARE = MiniGPTConfig(vocab_size=16, block_size=16, n_layer=3, n_head=4, n_embd=16)


def random_checkpoint(config: MiniGPTConfig = SQUARE) -> Checkpoint:
    """Initial arrays plus noise, so that biases and LayerNorms differ from block to block as well."""
    arrays = NumpyMiniGPT.initialise(config, seed=3).arrays
    generator = np.random.default_rng(4)
    for array in arrays.values():
        array += 0.1 * generator.standard_normal(array.shape, dtype=np.float32)
    return Checkpoint(config=config, arrays=arrays, metadata={})
