"""Windows over the same memory."""

import torch
from torch import nn


class AsStrided(nn.Module):
    def forward(self, x):
        return torch.as_strided(x, (8, 5), (3, 1)).exp() + 1


def make():
    return AsStrided(), (torch.randn(40),)
