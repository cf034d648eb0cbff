"""Attention as torch's own function."""

import torch
from torch import nn
from torch.nn import functional as F


class Sdpa(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def make():
    return Sdpa(), tuple(torch.randn(2, 2, 16, 8) for _ in range(3))
