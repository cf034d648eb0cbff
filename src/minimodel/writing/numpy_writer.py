"""The NumPy model, a token at a time: keys and values of the tokens before are kept, not computed again."""

import math

import numpy as np

from minimodel.numpy_minigpt import NumpyMiniGPT, softmax


class NumpyWriter:
    """Feeds a `NumpyMiniGPT` one token of each of B sequences after the other, in its arrays' dtype.

    Args:
        model: whose weights are read at each step.
        sequences: B.
    """

    name = "numpy"

    def __init__(self, model: NumpyMiniGPT, sequences: int) -> None:
        self.model, self.arrays = model, model.arrays
        size = model.config
        cache = (size.n_layer, 2, sequences, size.n_head, size.block_size, size.n_embd // size.n_head)
        self._cache = np.zeros(cache, model.parameters.dtype)  # keys and values of each layer

    def step(self, ids: np.ndarray, position: int) -> np.ndarray:
        """Take the tokens (B,) at `position`, those before having been taken; return the logits (B, V) after them.

        The layers are the model's own; attention alone is another, of one token over those that are kept.
        """
        linear, layer_norm, gelu = self.model._linear, self.model._layer_norm, self.model._gelu
        # (B, d): rows of one position, which linear layers and LayerNorm take as they take N rows
        x = self.arrays["token_embedding"][ids] + self.arrays["position_embedding"][position]
        for i in range(self.model.config.n_layer):
            block = f"blocks.{i}"
            qkv = linear(f"{block}.attention.qkv", layer_norm(f"{block}.ln_1", x))
            x = x + linear(f"{block}.attention.proj", self._attention(i, qkv, position))
            hidden = gelu(f"{block}.mlp.gelu", linear(f"{block}.mlp.fc", layer_norm(f"{block}.ln_2", x)))
            x = x + linear(f"{block}.mlp.proj", hidden)
        return linear("lm_head", layer_norm("ln_f", x)).copy()  # of a buffer that the next step overwrites

    def _attention(self, layer: int, qkv: np.ndarray, position: int) -> np.ndarray:
        """Attention of the newest token over itself and all before it: (B, 3d) to (B, d)."""
        n_head, batch = self.model.config.n_head, len(qkv)
        query, key, value = qkv.reshape(batch, 3, n_head, -1).swapaxes(0, 1)  # each (B, H, d_h)
        # No mask: positions to come are simply not among the keys.
        self._cache[layer, :, :, :, position] = key, value
        keys, values = self._cache[layer, :, :, :, : position + 1]  # each (B, H, T, d_h)
        # (B, H, T), the newest query with every key so far
        scores = (keys @ query[..., None])[..., 0] * (1 / math.sqrt(query.shape[-1]))
        return (softmax(scores)[..., None, :] @ values)[..., 0, :].reshape(batch, -1)
