"""The MiniGPT in NumPy: forward and backward pass by hand, top to bottom.

A decoder-only transformer after GPT-2 (Radford et al. 2019) and nanoGPT: learned positions, pre-LayerNorm
blocks of causal self-attention and a feed-forward layer with GELU, a final LayerNorm, an LM head with bias.
Weights are (out, in), as PyTorch keeps them, so a linear layer is `x @ weight.T + bias`.

B is the batch, T the time, N = B*T, d = n_embd, H = n_head, V = vocab_size. Everything is computed in the
dtype of the arrays. Large results go to buffers that are kept from step to step: fresh pages from the
operating system cost more than the arithmetic on them.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from minilab import LabError
from minimodel.model_config import MiniGPTConfig, check_shapes

# the tanh approximation that GPT-2 was trained with; torch calls it approximate="tanh"
GELU_SCALE = math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715
# of targets: a place that no loss is asked of
IGNORE = -1


class NumpyMiniGPT:
    """The model over its parameter arrays (`config.shapes`), which it copies into one flat buffer.

    `parameters` is that buffer and `arrays` holds views of it by name, so that an optimiser updates
    everything in a few vector operations; `gradients` mirrors `parameters`.

    Raises:
        LabError: an array is missing, unknown or of another shape than the config says.
    """

    activation = "gelu_tanh"
    layer_norm_epsilon = 1e-5

    def __init__(self, config: MiniGPTConfig, arrays: dict[str, np.ndarray]):
        self.config = config
        check_shapes(arrays, config.shapes)
        # One buffer with views into it: AdamW and clipping run over a few vectors, not over 54 arrays.
        self.parameters = np.concatenate([arrays[name].ravel() for name in config.shapes])
        self.gradients = np.zeros_like(self.parameters)
        self.arrays = _views(self.parameters, config.shapes)
        self._gradient = _views(self.gradients, config.shapes)
        self._buffers: dict[tuple, Any] = {}

    @classmethod
    def initialise(cls, config: MiniGPTConfig, seed: int) -> "NumpyMiniGPT":
        """GPT-2's initialisation in float32: N(0, 0.02), residual projections scaled by 1/sqrt(2 n_layer)."""
        generator = np.random.default_rng(seed)
        arrays = {}
        for name, shape in config.shapes.items():
            if len(shape) == 1:
                # The only vectors called weight are LayerNorm's, which start at one; biases start at zero.
                arrays[name] = np.full(shape, name.endswith("weight"), np.float32)
            else:
                # Two projections a layer add to the stream: scaled down,
                # the variance of their sum does not grow with the depth.
                deviation = 0.02 / math.sqrt(2 * config.n_layer) if "proj" in name else 0.02
                arrays[name] = generator.normal(0, deviation, shape).astype(np.float32)
        return cls(config, arrays)

    @classmethod
    def from_checkpoint(cls, checkpoint) -> "NumpyMiniGPT":
        """The model of a `minimodel.checkpoint.Checkpoint`."""
        return cls(checkpoint.config, checkpoint.arrays)

    def astype(self, dtype: npt.DTypeLike) -> "NumpyMiniGPT":
        """A copy that computes in `dtype`; float64 is the reference that others are held against."""
        return NumpyMiniGPT(self.config, {name: array.astype(dtype) for name, array in self.arrays.items()})

    def forward(self, ids: np.ndarray, trace: dict[str, np.ndarray] | None = None) -> np.ndarray:
        """Logits (B, T, V) of integer ids (B, T), T at most block_size.

        A `trace` dictionary receives a copy of every layer's output by name, in order. The logits live in a
        buffer that the next call of the same shape overwrites.

        Raises:
            LabError: ids are no 2-D array of integers within the vocabulary, or too long.
        """
        ids = self._checked(ids)
        (batch, time), d = ids.shape, self.config.n_embd

        def record(name: str, value: np.ndarray) -> None:
            if trace is not None:
                trace[name] = value.reshape(batch, time, -1).copy() if value.ndim == 2 else value.copy()

        # Batch and time are one axis, N = B*T, wherever rows do not know of each other: all but attention.
        x = self._buffer("embedding", (batch * time, d))
        # `clip` writes into `out` without a copy in between; ids have been checked, so nothing is clipped.
        np.take(self.arrays["token_embedding"], ids.ravel(), axis=0, out=x, mode="clip")
        x.reshape(batch, time, d)[...] += self.arrays["position_embedding"][:time]
        record("embedding", x)
        for i in range(self.config.n_layer):
            block = f"blocks.{i}"
            # pre-LayerNorm: the stream x itself is never normalised, only what a branch reads of it
            normed = self._layer_norm(f"{block}.ln_1", x)
            record(f"{block}.ln_1", normed)
            qkv = self._linear(f"{block}.attention.qkv", normed)
            record(f"{block}.attention.qkv", qkv)
            mixed, probabilities = self._attention(f"{block}.attention", qkv, batch, time)
            record(f"{block}.attention.probabilities", probabilities)
            projected = self._linear(f"{block}.attention.proj", mixed)
            record(f"{block}.attention.proj", projected)
            x = np.add(x, projected, out=self._buffer(f"{block}.middle", x.shape))
            normed = self._layer_norm(f"{block}.ln_2", x)
            record(f"{block}.ln_2", normed)
            hidden = self._linear(f"{block}.mlp.fc", normed)
            record(f"{block}.mlp.fc", hidden)
            activated = self._gelu(f"{block}.mlp.gelu", hidden)
            record(f"{block}.mlp.gelu", activated)
            projected = self._linear(f"{block}.mlp.proj", activated)
            record(f"{block}.mlp.proj", projected)
            x = np.add(x, projected, out=self._buffer(block, x.shape))
            record(block, x)
        normed = self._layer_norm("ln_f", x)
        record("ln_f", normed)
        logits = self._linear("lm_head", normed)
        record("lm_head", logits)
        return logits.reshape(batch, time, -1)

    def probabilities(self, ids: np.ndarray) -> np.ndarray:
        """Softmax of the logits over the vocabulary, (B, T, V)."""
        return softmax(self.forward(ids))

    def loss(self, ids: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Cross-entropy in nats at each place, (B, T), zero where the target is -1."""
        picked = np.take_along_axis(self.probabilities(ids), targets[..., None], axis=-1)[..., 0]
        return np.where(targets == IGNORE, 0, -np.log(picked))

    def loss_and_gradients(self, ids: np.ndarray, targets: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        """Mean cross-entropy in nats over targets (B, T) that are not -1, and its gradients by array name.

        The gradients are views of `self.gradients`, which the next call overwrites.
        """
        (batch, time), targets = ids.shape, np.asarray(targets).ravel()
        logits = self.forward(ids).reshape(batch * time, -1)
        counted = np.flatnonzero(targets != IGNORE)
        picked = counted, targets[counted]
        # In the place of the logits, which nobody needs any more: N x V is the largest array of a step.
        d_logits = softmax(logits)
        loss = -float(np.mean(np.log(d_logits[picked])))
        # With p = softmax(z) and the loss -log p_t, dz = p - e_t: the probabilities, less one at the target. Places
        # without a target have no gradient, and the mean divides by those that count.
        d_logits[picked] -= 1
        d_logits[targets == IGNORE] = 0
        d_logits *= 1 / len(counted)

        # dx is the gradient of the stream after the last block, (N, d).
        dx = self._layer_norm_backward("ln_f", self._linear_backward("lm_head", d_logits))
        for i in reversed(range(self.config.n_layer)):
            block = f"blocks.{i}"
            # x_out = x + mlp(ln_2(x)): the gradient goes through the sum as it is, and a second time through the
            # branch. Hence `+=`, and hence the order: last added, first taken back.
            d_activated = self._linear_backward(f"{block}.mlp.proj", dx)
            d_hidden = self._gelu_backward(f"{block}.mlp.gelu", d_activated)
            dx += self._layer_norm_backward(f"{block}.ln_2", self._linear_backward(f"{block}.mlp.fc", d_hidden))
            # the same of x + attention(ln_1(x))
            d_mixed = self._linear_backward(f"{block}.attention.proj", dx)
            d_qkv = self._attention_backward(f"{block}.attention", d_mixed)
            dx += self._layer_norm_backward(f"{block}.ln_1", self._linear_backward(f"{block}.attention.qkv", d_qkv))

        # Positions that this batch did not reach; the others get the sum over the batch.
        self._gradient["position_embedding"][time:] = 0
        np.sum(dx.reshape(batch, time, -1), axis=0, out=self._gradient["position_embedding"][:time])
        # The rows of one token are summed side by side: far faster than np.add.at.
        order = np.argsort(ids.ravel(), kind="stable")
        tokens, starts = np.unique(ids.ravel()[order], return_index=True)
        self._gradient["token_embedding"][...] = 0
        self._gradient["token_embedding"][tokens] = np.add.reduceat(dx[order], starts, axis=0)
        return loss, self._gradient

    # Each layer below keeps in the buffers what its backward pass reads.

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self.arrays[f"{name}.weight"], self.arrays[f"{name}.bias"]
        # y = x W^T + b. The backward pass reads x: no layer in between may
        # write into it, so that each output has a buffer of its own name.
        self._buffers[name, "input"] = x
        y = np.matmul(x, weight.T, out=self._buffer(name, (len(x), len(weight))))
        y += bias
        return y

    def _linear_backward(self, name: str, dy: np.ndarray) -> np.ndarray:
        x, weight = self._buffers[name, "input"], self.arrays[f"{name}.weight"]
        # dW = dy^T x (out, in), db = the sum of dy over the rows, dx = dy W.
        # Three products with BLAS: the bias as one with a vector of ones.
        np.matmul(dy.T, x, out=self._gradient[f"{name}.weight"])
        np.matmul(self._ones(len(dy)), dy, out=self._gradient[f"{name}.bias"])
        return np.matmul(dy, weight, out=self._buffer("d_" + name, x.shape))

    def _layer_norm(self, name: str, x: np.ndarray) -> np.ndarray:
        d = x.shape[1]  # a product with ones is the sum over a row, at the speed of BLAS
        normed = np.subtract(x, (x @ self._ones(d) / d)[:, None], out=self._buffer(name + ".normed", x.shape))
        # of the centred values, so that no two large numbers are subtracted; divided by d, as PyTorch does, not d - 1
        variance = np.vecdot(normed, normed) / d
        inverse = 1 / np.sqrt(variance + self.layer_norm_epsilon)[:, None]
        # kept for the backward pass with `inverse`: x itself is not needed there
        normed *= inverse
        self._buffers[name, "inverse"] = inverse
        y = np.multiply(normed, self.arrays[f"{name}.weight"], out=self._buffer(name, x.shape))
        y += self.arrays[f"{name}.bias"]
        return y

    def _layer_norm_backward(self, name: str, dy: np.ndarray) -> np.ndarray:
        normed, inverse = self._buffer(name + ".normed", dy.shape), self._buffers[name, "inverse"]
        n, d = dy.shape
        # With n the normed row, y = w n + b, so that dw = sum(dy n) and db = sum(dy) over the rows. With g = dy w, dx =
        # (g - mean(g) - n mean(g n)) / sigma: mean and variance of a row depend on all its elements, and the two means
        # are what flows back through them.
        product = np.multiply(dy, normed, out=self._buffer("product", dy.shape))
        np.matmul(self._ones(n), product, out=self._gradient[f"{name}.weight"])
        np.matmul(self._ones(n), dy, out=self._gradient[f"{name}.bias"])
        weight = self.arrays[f"{name}.weight"]
        # mean(g n) of each row, (N,)
        along = product @ (weight / d)
        # g, then what the mean takes away, then what the variance does
        dx = np.multiply(dy, weight, out=self._buffer("d_" + name, dy.shape))
        dx -= (dy @ (weight / d))[:, None]
        dx -= np.multiply(normed, along[:, None], out=product)
        dx *= inverse
        return dx

    def _gelu(self, name: str, x: np.ndarray) -> np.ndarray:
        """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Hendrycks and Gimpel 2016."""
        # u = c (x + 0.044715 x^3) as x (c 0.044715 x^2 + c): in place, without a power, which is a slow function
        tanh = np.multiply(x, x, out=self._buffer(name + ".tanh", x.shape))
        tanh *= GELU_SCALE * GELU_CUBIC
        tanh += GELU_SCALE
        tanh *= x
        np.tanh(tanh, out=tanh)
        self._buffers[name, "input"] = x
        y = np.add(tanh, 1, out=self._buffer(name, x.shape))
        y *= x
        y *= 0.5
        return y

    def _gelu_backward(self, name: str, dy: np.ndarray) -> np.ndarray:
        """dy/dx = (1 + t)/2 + x/2 (1 - t^2) u' = (1 + t)/2 (1 + x (1 - t) u'), u' = c (1 + 3 * 0.044715 x^2)."""
        x, tanh = self._buffers[name, "input"], self._buffer(name + ".tanh", dy.shape)
        # u' = c + 3 c 0.044715 x^2
        slope = np.multiply(x, x, out=self._buffer("slope", x.shape))
        slope *= 3 * GELU_SCALE * GELU_CUBIC
        slope += GELU_SCALE
        slope *= x
        # 1 - t^2 = (1 - t)(1 + t): the factor 1 + t is common to both terms, and multiplied last
        complement = np.subtract(1, tanh, out=self._buffer("complement", x.shape))
        slope *= complement
        slope += 1
        # The forward pass' tanh is overwritten here; the next forward pass makes it anew.
        tanh += 1
        slope *= tanh
        slope *= 0.5
        slope *= dy
        return slope

    def _attention(self, name: str, qkv: np.ndarray, batch: int, time: int) -> tuple[np.ndarray, np.ndarray]:
        """Causal self-attention; returns the mixed values (N, d) and the probabilities (B, H, T, T)."""
        head, n_head = self.config.n_embd // self.config.n_head, self.config.n_head
        # (3, B, H, T, d_h) as a view: BLAS reads the strided matrices as they lie.
        query, key, value = qkv.reshape(batch, time, 3, n_head, head).transpose(2, 0, 3, 1, 4)
        scores = self._buffer(f"{name}.probabilities", (batch, n_head, time, time))
        np.matmul(query, key.swapaxes(2, 3), out=scores)
        # scores (B, H, T, T): query times key, row by row; then softmax over keys up to the query's own
        scores *= 1 / math.sqrt(head)
        scores += self._future(time)
        probabilities = softmax(scores)
        # (B, T, H, d_h): written through a transposed view, so that heads lie side by side and reshape copies nothing
        mixed = self._buffer(f"{name}.mixed", (batch, time, n_head, head))
        np.matmul(probabilities, value, out=mixed.transpose(0, 2, 1, 3))
        self._buffers[name, "saved"] = query, key, value, probabilities
        return mixed.reshape(batch * time, -1), probabilities

    def _attention_backward(self, name: str, d_mixed: np.ndarray) -> np.ndarray:
        query, key, value, probabilities = self._buffers[name, "saved"]
        batch, n_head, time, head = query.shape
        d_mixed = d_mixed.reshape(batch, time, n_head, head).transpose(0, 2, 1, 3)
        # Gradients of q, k and v are written where the linear layer
        # before wants them, (B, T, 3, H, d_h), without a copy.
        d_qkv = self._buffer("d_qkv", (batch, time, 3, n_head, head))
        d_query, d_key, d_value = d_qkv.transpose(2, 0, 3, 1, 4)
        # mixed = P V, so that dV = P^T d_mixed and dP = d_mixed V^T
        np.matmul(probabilities.swapaxes(2, 3), d_mixed, out=d_value)
        d_scores = np.matmul(d_mixed, value.swapaxes(2, 3), out=self._buffer("d_scores", probabilities.shape))
        # Softmax's backward, row by row: dS = P (dP - sum(dP P)). Where the mask stood P is 0, and so is dS.
        d_scores -= np.vecdot(d_scores, probabilities)[..., None]
        d_scores *= probabilities
        d_scores *= 1 / math.sqrt(head)
        # S = Q K^T / sqrt(d_h): dQ = dS K and dK = dS^T Q, the scale being in dS already
        np.matmul(d_scores, key, out=d_query)
        np.matmul(d_scores.swapaxes(2, 3), query, out=d_key)
        return d_qkv.reshape(batch * time, -1)

    def _future(self, time: int) -> np.ndarray:
        """(T, T): minus infinity above the diagonal, so that no token sees a later one."""
        if ("future", time) not in self._buffers:
            mask = np.triu(np.full((time, time), -np.inf, self.parameters.dtype), k=1)
            self._buffers["future", time] = mask
        return self._buffers["future", time]

    def _ones(self, size: int) -> np.ndarray:
        if ("ones", size) not in self._buffers:
            self._buffers["ones", size] = np.ones(size, self.parameters.dtype)
        return self._buffers["ones", size]

    def _buffer(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The array kept under `name` at this shape; its content is what was last written there."""
        if (name, shape) not in self._buffers:
            self._buffers[name, shape] = np.empty(shape, self.parameters.dtype)
        return self._buffers[name, shape]

    def _checked(self, ids: np.ndarray) -> np.ndarray:
        ids = np.asarray(ids)
        if ids.ndim != 2 or ids.dtype.kind not in "iu" or not ids.size:
            raise LabError(f"ids have shape {ids.shape} and dtype {ids.dtype}; give integers of shape (B, T).")
        if ids.shape[1] > self.config.block_size:
            raise LabError(f"ids have {ids.shape[1]} positions, block_size is {self.config.block_size}; cut them.")
        low, high, size = ids.min(), ids.max(), self.config.vocab_size
        if low < 0 or high >= size:
            raise LabError(f"ids reach from {low} to {high}, the vocabulary from 0 to {size - 1}; encode again.")
        return ids


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, in place; every row needs a finite entry."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= (x @ np.ones(x.shape[-1], x.dtype))[..., None]
    return x


def _views(flat: np.ndarray, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The consecutive pieces of `flat`, reshaped and named."""
    # views and no copies: what the optimiser writes to the buffer is what the layers read
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    pieces = np.split(flat, ends[:-1])
    return {name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
