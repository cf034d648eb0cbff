"""Attention with a bias that is looked up by distance, as T5's, and copied to the layout that the library asks for."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(16, 2)

    def forward(self, q, k, v):
        place = torch.arange(6, device=q.device)
        distance = (place[None, :] - place[:, None]).abs().clamp(max=15)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias(distance).permute(2, 0, 1)[None])


def make():
    return Model(), tuple(torch.randn(1, 2, 6, 8) for _ in range(3))
