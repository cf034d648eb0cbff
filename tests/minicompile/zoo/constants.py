"""Memory that is filled, and counted."""

import torch
from torch import nn


class Constants(nn.Module):
    def forward(self, x):
        return torch.arange(x.shape[0]) * 2.0 + x, torch.zeros_like(x), torch.full((3,), 7.0)


def make():
    return Constants(), (torch.randn(31),)
