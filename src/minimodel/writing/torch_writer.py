"""The PyTorch model, a token at a time, with a static cache: no shape changes, as a compiler and a CUDA graph ask.

The layout is gpt-fast's (github.com/meta-pytorch/gpt-fast): a cache of `block_size` positions for each layer, written
at the newest position and read whole, under a mask.
"""

from math import sqrt

import numpy as np
import torch
from torch import Tensor

from minimodel.torch_minigpt import Attention, Block, GrammarMiniGPT


class TorchWriter:
    """Feeds a `GrammarMiniGPT` one token of each of B sequences after the other, on its device and in its dtype.

    Args:
        model: whose weights are read at each step.
        sequences: B.

    Attributes:
        cache: of each layer keys and values, (B, H, block_size, d_h).
    """

    name = "torch"

    def __init__(self, model: GrammarMiniGPT, sequences: int) -> None:
        self.model = model
        size, weight = model.config, model.lm_head.weight
        self.device = weight.device
        shape = (sequences, size.n_head, size.block_size, size.n_embd // size.n_head)
        self.cache = [(weight.new_zeros(shape), weight.new_zeros(shape)) for _ in range(size.n_layer)]
        self._places = torch.arange(size.block_size, device=self.device)

    @torch.no_grad()
    def step(self, ids: np.ndarray, position: int) -> np.ndarray:
        """Take the tokens (B,) at `position`, those before having been taken; return the logits (B, V) after them."""
        # a tensor and not a number, or each position would be compiled anew
        place = torch.tensor([position], device=self.device)
        return self.forward(torch.as_tensor(ids, device=self.device), place).float().cpu().numpy()

    def forward(self, ids: Tensor, place: Tensor) -> Tensor:
        """The same on tensors: ids (B,) int64 and the place (1,) int64 to logits (B, V). This is what is compiled."""
        model = self.model
        x = model.embedding(model.token_embedding(ids) + model.position_embedding(place))
        for block, (keys, values) in zip(model.blocks, self.cache, strict=True):
            assert isinstance(block, Block)
            x = x + self._attention(block.attention, block.ln_1(x), keys, values, place)
            x = x + block.mlp(block.ln_2(x))
        return model.lm_head(model.ln_f(x))

    def _attention(self, attention: Attention, x: Tensor, keys: Tensor, values: Tensor, place: Tensor) -> Tensor:
        batch, n_head = len(x), attention.n_head
        query, key, value = attention.qkv(x).view(batch, 3, n_head, 1, -1).unbind(1)  # each (B, H, 1, d_h)
        # in place: the cache's address stays, as a CUDA graph needs it
        keys.index_copy_(2, place, key)
        values.index_copy_(2, place, value)
        scores = query @ keys.transpose(-2, -1) / sqrt(query.shape[-1])  # (B, H, 1, block_size)
        # Whatever lies in the cache beyond the newest position is hidden: zeros, or an earlier text's keys.
        scores = scores.masked_fill(self._places > place, -torch.inf)
        mixed = attention.probabilities(scores) @ values
        return attention.proj(mixed.reshape(batch, -1))
