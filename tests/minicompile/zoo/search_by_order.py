"""Places in rows that are sorted by an order of their own."""

import torch
from torch import nn


class SearchByOrder(nn.Module):
    def forward(self, rows, order, x):
        return torch.searchsorted(rows, x, sorter=order) + 1


def make():
    rows = torch.randn(4, 10)
    return SearchByOrder(), (rows, rows.argsort(-1), torch.randn(4, 6))
