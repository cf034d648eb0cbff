"""A product of batches, added to a scaled third."""

import torch
from torch import nn


class AddedProduct(nn.Module):
    def forward(self, c, a, b):
        return torch.baddbmm(c, a, b, beta=0.5, alpha=2).relu() + c


def make():
    return AddedProduct(), (
        torch.randn(3, 6, 7),
        torch.randn(3, 6, 9),
        torch.randn(3, 9, 7),
    )
