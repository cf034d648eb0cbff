"""A convolution in three dimensions."""

import torch
from torch import nn


class Conv3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(2, 4, 3)

    def forward(self, x):
        return self.conv(x).sigmoid().mean((2, 3, 4))


def make():
    return Conv3d(), (torch.randn(1, 2, 6, 7, 8),)
