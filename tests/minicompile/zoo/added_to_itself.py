"""Adds a product to itself where another input says."""

import torch
from torch import nn


class AddedToItself(nn.Module):
    def forward(self, x, w, rows):
        product = x * w
        return product.index_add(1, rows, product.neg())


def make():
    return AddedToItself(), (torch.randn(2, 7, 18), torch.randn(18), torch.randint(0, 7, (7,)))
