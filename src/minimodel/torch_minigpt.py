"""The model in PyTorch: the same layers as `numpy_minigpt`, under the same names.

A decoder-only transformer (Vaswani et al. 2017) with GPT-2's pre-LayerNorm blocks (Radford et al. 2019),
laid out in the manner of Karpathy's nanoGPT. Attention is written out from `nn.Linear` and softmax so
that it can be read, and so that a compiler's work on it can be followed. In shapes, B is the batch, T the
sequence, d = n_embd, H = n_head, d_h = d / H, and V = vocab_size.
"""

from collections import OrderedDict
from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from minilab import LabError
from minimodel.numpy_minigpt import MiniGPTConfig


def last_axis_softmax(logits: Tensor) -> Tensor:
    """Compute `F.softmax` over the last axis of (..., V) logits."""
    return F.softmax(logits, dim=-1)


class Attention(nn.Module):
    """Causal self-attention with H heads, (B, T, d) to (B, T, d)."""

    future: Tensor  # (block_size, block_size) bool: what a position may not attend to

    def __init__(self, config: MiniGPTConfig) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.probabilities = nn.Softmax(dim=-1)
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        future = torch.ones(config.block_size, config.block_size, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        heads = (B, T, self.n_head, d // self.n_head)
        query, key, value = (part.view(heads).transpose(1, 2) for part in self.qkv(x).split(d, dim=-1))
        scores = query @ key.transpose(-2, -1) / sqrt(d // self.n_head)  # (B, H, T, T)
        scores = scores.masked_fill(self.future[:T, :T], -torch.inf)
        mixed = self.probabilities(scores) @ value  # (B, H, T, d_h)
        return self.proj(mixed.transpose(1, 2).reshape(B, T, d))


class Block(nn.Module):
    """One pre-LayerNorm block: attention, then the feed-forward network, each added to the stream."""

    def __init__(self, config: MiniGPTConfig) -> None:
        super().__init__()
        d = config.n_embd
        self.ln_1 = nn.LayerNorm(d, eps=1e-5)
        self.attention = Attention(config)
        self.ln_2 = nn.LayerNorm(d, eps=1e-5)
        layers = {"fc": nn.Linear(d, 4 * d), "gelu": nn.GELU(approximate="tanh"), "proj": nn.Linear(4 * d, d)}
        self.mlp = nn.Sequential(OrderedDict(layers))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GrammarMiniGPT(nn.Module):
    """The grammar model; `softmax` turns its logits into probabilities and can be swapped at any time.

    Args:
        config: the sizes, as the NumPy model has them.
        softmax: a callable on (..., V) float tensors that works on the last axis, such as
            `functools.partial(minikernel.softmax, dim=-1)`.
    """

    def __init__(self, config: MiniGPTConfig, softmax: Callable[[Tensor], Tensor] = last_axis_softmax) -> None:
        super().__init__()
        self.config = config
        self.softmax = softmax
        self.token_embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.position_embedding = nn.Embedding(config.block_size, config.n_embd)
        self.embedding = nn.Identity()  # gives the sum of both embeddings a name that hooks can find
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, eps=1e-5)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, V), float32, of the word that follows each position of `ids` (B, T), int64.

        Raises:
            LabError: `ids` is not (B, T), is longer than `block_size`, or leaves the vocabulary.
        """
        self._check(ids)
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.embedding(self.token_embedding(ids) + self.position_embedding(positions))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))

    def probabilities(self, ids: Tensor) -> Tensor:
        """Probabilities (B, T, V) of the next word: `softmax` over `forward`'s logits."""
        return self.softmax(self(ids))

    @torch.no_grad()
    def trace(self, ids: Tensor, feed: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Every layer's output by name and in order, the names being those of the NumPy model's trace.

        With `feed`, each output is recorded and then replaced by `feed[name]` before the next layer sees
        it, so that a difference in an output is that layer's own and not handed down to it.
        """
        outputs = {}

        def record(name: str) -> Callable:
            def hook(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor | None:
                outputs[name] = output
                return None if feed is None else feed[name]

            return hook

        names = layer_names(self.config)
        hooks = [self.get_submodule(name).register_forward_hook(record(name)) for name in names]
        try:
            self(ids)
        finally:
            for hook in hooks:
                hook.remove()
        return outputs

    def _check(self, ids: Tensor) -> None:
        """Refuse ids that the embeddings cannot look up."""
        vocab_size, block_size = self.config.vocab_size, self.config.block_size
        if ids.dim() != 2:
            raise LabError(f"GrammarMiniGPT got ids of {ids.dim()} axes; give it (batch, sequence).")
        if ids.shape[1] > block_size:
            raise LabError(
                f"GrammarMiniGPT got a sequence of {ids.shape[1]} ids, and its positions end at block_size = "
                f"{block_size}; give it the last {block_size} ids."
            )
        # Values are read on CPU only: on a GPU that would wait for the device, and a compiler has none.
        readable = ids.device.type == "cpu" and not torch.compiler.is_compiling()
        if readable and ids.numel() and not 0 <= ids.min() <= ids.max() < vocab_size:
            raise LabError(
                f"GrammarMiniGPT got ids from {ids.min()} to {ids.max()}, and its vocabulary has 0 to "
                f"{vocab_size - 1}; encode the text with the vocabulary that the model was trained on."
            )


def layer_names(config: MiniGPTConfig) -> list[str]:
    """The layers that a trace holds, from the first to the last."""
    parts: tuple[str, ...] = ("ln_1", "attention.qkv", "attention.probabilities", "attention.proj")
    parts += ("ln_2", "mlp.fc", "mlp.gelu", "mlp.proj")
    names = ["embedding"]
    for i in range(config.n_layer):
        names += [f"blocks.{i}.{part}" for part in parts] + [f"blocks.{i}"]
    return [*names, "ln_f", "lm_head"]
