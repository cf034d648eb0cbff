"""A sum over the first axis."""

import torch
from torch import nn


class SumColumns(nn.Module):
    def forward(self, x):
        return x.exp().sum(0)


def make():
    return SumColumns(), (torch.randn(70, 48),)
