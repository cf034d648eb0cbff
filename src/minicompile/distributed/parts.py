"""Cuts MiniGPT into the parts that two of the patterns need: by its heads, and by its depth."""

from math import sqrt

import torch
from torch import Tensor, nn

from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import Attention, GrammarMiniGPT


class SplitAttention(nn.Module):
    """MiniGPT's attention with its fused `qkv` split in three, (B, T, d) to (B, T, d).

    Cut by columns, a fused (3d, d) weight would give one rank the queries and another the values; three weights give
    each rank query, key and value of the same whole heads. The number of heads is read off the local width.
    """

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    future: Tensor

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        d = attention.proj.in_features
        self.head_size = d // attention.n_head
        weights, biases = attention.qkv.weight.detach().chunk(3), attention.qkv.bias.detach().chunk(3)
        for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            linear = nn.Linear(d, d, device=weight.device, dtype=weight.dtype)
            linear.weight, linear.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
            self.add_module(name, linear)
        self.probabilities = attention.probabilities
        self.proj = attention.proj
        self.register_buffer("future", attention.get_buffer("future"), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        query, key, value = (
            part(x).view(B, T, -1, self.head_size).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-2, -1) / sqrt(self.head_size)  # (B, H / N, T, T)
        scores = scores.masked_fill(self.future[:T, :T], -torch.inf)
        mixed = self.probabilities(scores) @ value  # (B, H / N, T, d_h)
        return self.proj(mixed.transpose(1, 2).reshape(B, T, -1))


class StagePart(nn.Module):
    """One rank's share of MiniGPT's depth: ids (B, T) or hidden states (B, T, d) to hidden states or logits (B, T, V).

    Blocks are dealt out evenly, the first ranks taking one more where they do not divide; the first rank also has the
    embeddings, the last one the final LayerNorm and the LM head.
    """

    def __init__(self, model: GrammarMiniGPT, rank: int, ranks: int) -> None:
        super().__init__()
        first, last = rank == 0, rank == ranks - 1
        self.token_embedding = model.token_embedding if first else None
        self.position_embedding = model.position_embedding if first else None
        shares = [len(model.blocks) // ranks + (i < len(model.blocks) % ranks) for i in range(ranks)]
        start = sum(shares[:rank])
        self.blocks = nn.Sequential(*model.blocks[start : start + shares[rank]])
        self.ln_f = model.ln_f if last else None
        self.lm_head = model.lm_head if last else None

    def forward(self, x: Tensor) -> Tensor:
        if self.token_embedding is not None and self.position_embedding is not None:
            x = self.token_embedding(x) + self.position_embedding(torch.arange(x.shape[1], device=x.device))
        x = self.blocks(x)
        return self.lm_head(self.ln_f(x)) if self.lm_head is not None and self.ln_f is not None else x


def build_model(sizes: dict, seed: int, device: torch.device, dtype: str = "float32") -> GrammarMiniGPT:
    """Build MiniGPT of these sizes (as `MiniGPTConfig`) on `device`; every rank draws the same weights from `seed`.

    The weights are drawn in float32 and rounded to `dtype`, a torch dtype's name.

    Raises:
        LabError: the sizes cannot be.
    """
    torch.manual_seed(seed)
    with device:
        return GrammarMiniGPT(MiniGPTConfig(**sizes)).to(getattr(torch, dtype))


def batches(sizes: dict, batch: int, steps: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Draw random ids and targets, each (B, T), int64, on CPU: one pair a step, the same on every rank."""
    generator = torch.Generator().manual_seed(seed)
    shape = (steps, 2, batch, sizes["block_size"])
    tokens = torch.randint(sizes["vocab_size"], shape, generator=generator)
    return [(ids, targets) for ids, targets in tokens]
