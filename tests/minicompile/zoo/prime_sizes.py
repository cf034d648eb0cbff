"""No size divides by another."""

import torch
from torch import nn


class PrimeSizes(nn.Module):
    def forward(self, x):
        return (x - x.mean((0, 2), keepdim=True)).relu().sum(1)


def make():
    return PrimeSizes(), (torch.randn(7, 13, 101),)
