"""Positions as rotations."""

import torch
from torch import nn


class Rotary(nn.Module):
    def forward(self, x):
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[-2], device=x.device)[:, None] * 0.1 ** torch.arange(half, device=x.device)
        first, second = x.chunk(2, -1)
        turned = torch.cat([-second, first], -1)
        return x * angles.cos().repeat(1, 2) + turned * angles.sin().repeat(1, 2)


def make():
    return Rotary(), (torch.randn(2, 3, 10, 8),)
