"""The overlap of two masks."""

import torch
from torch import nn


class Dice(nn.Module):
    def forward(self, x, y):
        p = x.sigmoid()
        return 1 - (2 * (p * y).sum((1, 2)) + 1) / (p.sum((1, 2)) + y.sum((1, 2)) + 1)


def make():
    return Dice(), (
        torch.randn(3, 17, 19),
        torch.rand(3, 17, 19).round(),
    )
