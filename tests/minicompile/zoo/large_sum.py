"""A sum so long that several programs share it."""

import torch
from torch import nn


class LargeSum(nn.Module):
    def forward(self, x):
        return (x * x).sum()


def make():
    return LargeSum(), (torch.randn(300_000),)
