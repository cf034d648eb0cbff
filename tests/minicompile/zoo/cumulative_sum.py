"""A scan, and a division beside it."""

import torch
from torch import nn


class CumulativeSum(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, -1) / torch.arange(1, x.shape[-1] + 1)


def make():
    return CumulativeSum(), (torch.randn(6, 100),)
