"""Attention to the last few places."""

import torch
from torch import nn
from torch.nn import functional as F


class SlidingWindow(nn.Module):
    def forward(self, q, k, v):
        places = torch.arange(q.shape[-2], device=q.device)
        back = places[:, None] - places[None]
        mask = (back >= 0) & (back < 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def make():
    return SlidingWindow(), tuple(torch.randn(1, 2, 15, 8) for _ in range(3))
