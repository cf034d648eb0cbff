"""A sort along an axis."""

import torch
from torch import nn


class SortedRows(nn.Module):
    def forward(self, x):
        values, places = torch.sort(x + 1, dim=-1, stable=True)
        return values * 2, places


def make():
    return SortedRows(), (torch.randn(9, 32),)
