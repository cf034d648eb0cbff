"""The maximum of overlapping windows, and where it is."""

import torch
from torch import nn
from torch.nn import functional as F


class MaxPoolIndices(nn.Module):
    def forward(self, x):
        values, places = F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)
        return values + 1, places


def make():
    return MaxPoolIndices(), (torch.randn(2, 3, 11, 9),)
