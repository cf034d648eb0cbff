"""Scans down the columns."""

import torch
from torch import nn


class CumulativeProduct(nn.Module):
    def forward(self, x):
        return torch.cumprod(x.sigmoid(), 0) + 1, torch.cumsum(x > 0, 0)


def make():
    return CumulativeProduct(), (torch.randn(37, 12),)
