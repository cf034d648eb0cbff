"""Places in sorted rows, row by row."""

import torch
from torch import nn


class SearchSorted(nn.Module):
    def forward(self, rows, x):
        return torch.searchsorted(rows, x, right=True) * 2


def make():
    return SearchSorted(), (
        torch.randn(5, 12).sort(-1).values,
        torch.randn(5, 7),
    )
