"""Attention whose scores fall off with distance."""

import torch
from torch import nn


class LinearBiasAttention(nn.Module):
    def forward(self, q, k, v):
        places = torch.arange(q.shape[-2], device=q.device)
        slopes = 2.0 ** -torch.arange(1, 3, device=q.device)
        bias = -(places[:, None] - places[None]).abs() * slopes[:, None, None]
        return (q @ k.transpose(-1, -2) * 0.35 + bias).softmax(-1) @ v


def make():
    return LinearBiasAttention(), tuple(torch.randn(2, 2, 14, 8) for _ in range(3))
