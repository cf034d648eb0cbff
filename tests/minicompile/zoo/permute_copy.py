"""A transposition that is written to memory."""

import torch
from torch import nn


class PermuteCopy(nn.Module):
    def forward(self, x):
        return (x + 1).permute(2, 0, 1).contiguous().sin()


def make():
    return PermuteCopy(), (torch.randn(5, 12, 20),)
