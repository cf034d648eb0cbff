"""The NumPy model, a token at a time: keys and values of the tokens before are kept, not computed again."""

import math

import numpy as np

from minimodel.numpy_minigpt import GELU_CUBIC, GELU_SCALE, NumpyMiniGPT, softmax


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
        """Take the tokens (B,) at `position`, those before having been taken; return the logits (B, V) after them."""
        x = self.arrays["token_embedding"][ids] + self.arrays["position_embedding"][position]
        for i in range(self.model.config.n_layer):
            block = f"blocks.{i}"
            qkv = self._linear(f"{block}.attention.qkv", self._layer_norm(f"{block}.ln_1", x))
            x = x + self._linear(f"{block}.attention.proj", self._attention(i, qkv, position))
            hidden = _gelu(self._linear(f"{block}.mlp.fc", self._layer_norm(f"{block}.ln_2", x)))
            x = x + self._linear(f"{block}.mlp.proj", hidden)
        return self._linear("lm_head", self._layer_norm("ln_f", x))

    def _attention(self, layer: int, qkv: np.ndarray, position: int) -> np.ndarray:
        """Attention of the newest token over itself and all before it: (B, 3d) to (B, d)."""
        n_head, batch = self.model.config.n_head, len(qkv)
        query, key, value = qkv.reshape(batch, 3, n_head, -1).swapaxes(0, 1)  # each (B, H, d_h)
        self._cache[layer, :, :, :, position] = key, value
        keys, values = self._cache[layer, :, :, :, : position + 1]  # each (B, H, T, d_h)
        scores = (keys @ query[..., None])[..., 0] * (1 / math.sqrt(query.shape[-1]))
        return (softmax(scores)[..., None, :] @ values)[..., 0, :].reshape(batch, -1)

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.arrays[f"{name}.weight"].T + self.arrays[f"{name}.bias"]

    def _layer_norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        variance = np.vecdot(centred, centred)[..., None] / x.shape[-1]
        normed = centred / np.sqrt(variance + self.model.layer_norm_epsilon)
        return normed * self.arrays[f"{name}.weight"] + self.arrays[f"{name}.bias"]


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(GELU_SCALE * x * (1 + GELU_CUBIC * x * x)))
