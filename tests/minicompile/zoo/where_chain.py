"""One choice inside another."""

import torch
from torch import nn


class WhereChain(nn.Module):
    def forward(self, x, y):
        return torch.where(x > 1, y, torch.where(x < -1, -y, torch.where(y > 0, x, x * y)))


def make():
    return WhereChain(), (
        torch.randn(29, 31),
        torch.randn(29, 31),
    )
