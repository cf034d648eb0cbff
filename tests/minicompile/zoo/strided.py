"""Every third column of every second row."""

import torch
from torch import nn


class Strided(nn.Module):
    def forward(self, x):
        return x[::2, 1::3].exp().sum(-1)


def make():
    return Strided(), (torch.randn(20, 31),)
