"""Adds rows where another input says."""

import torch
from torch import nn


class IndexAdd(nn.Module):
    def forward(self, x, rows):
        return torch.zeros(10, 4).index_add(0, rows, x.exp())


def make():
    return IndexAdd(), (torch.randn(25, 4), torch.randint(0, 10, (25,)))
