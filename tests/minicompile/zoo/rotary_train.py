"""Positions as rotations of every other pair, forward and backward."""

import torch
from torch import nn

TRAIN = True


class RotaryTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def forward(self, x):
        x = self.proj(x)
        angles = torch.arange(x.shape[1], device=x.device)[:, None] * 0.5 ** torch.arange(
            x.shape[-1] // 2, device=x.device
        )
        even, odd = x[..., ::2], x[..., 1::2]
        turned = torch.stack([even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()], -1)
        return turned.flatten(-2).square().sum(-1).sqrt().mean()


def make():
    return RotaryTrain(), (torch.randn(2, 6, 8),)
