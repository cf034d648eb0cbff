"""Places in a sorted list."""

import torch
from torch import nn


class Buckets(nn.Module):
    def forward(self, x, edges):
        return torch.bucketize(x, edges) + 1


def make():
    return Buckets(), (torch.randn(16, 9), torch.linspace(-2, 2, 8))
