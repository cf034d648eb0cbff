"""Channels that become pixels."""

import torch
from torch import nn
from torch.nn import functional as F


class PixelShuffled(nn.Module):
    def forward(self, x):
        return F.pixel_shuffle(x.relu(), 2) + 1


def make():
    return PixelShuffled(), (torch.randn(2, 12, 5, 6),)
