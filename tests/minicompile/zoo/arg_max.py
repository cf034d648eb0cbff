"""The largest value and where it is."""

import torch
from torch import nn


class ArgMax(nn.Module):
    def forward(self, x):
        values, places = x.max(-1)
        return values.exp(), places + 1


def make():
    return ArgMax(), (torch.randn(20, 90),)
