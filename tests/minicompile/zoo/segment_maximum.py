"""A maximum over each node's neighbours, which a library finds in place."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, index, values):
        kept = (x * 2).scatter_reduce(0, index, values, "amax", include_self=False)
        return kept + 1


def make():
    return Model(), (torch.randn(6, 8), torch.randint(0, 6, (5, 8)), torch.randn(5, 8))
