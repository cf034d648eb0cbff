"""Pools to more columns than there are, twice: for a norm, and to be kept."""

import torch
from torch import nn
from torch.nn import functional as F


class PooledNorm(nn.Module):
    def forward(self, x):
        pooled = F.adaptive_avg_pool1d(x.std(1, keepdim=True), 3)
        return pooled.cumsum(1), (pooled.abs() + 1).log(), F.layer_norm(pooled, (3,))


def make():
    return PooledNorm(), (torch.randn(6, 2),)
