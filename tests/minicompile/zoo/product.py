"""A product along an axis."""

import torch
from torch import nn


class Product(nn.Module):
    def forward(self, x):
        return torch.prod(x * 0.9, 1)


def make():
    return Product(), (torch.randn(16, 25, 8),)
