"""Pooling by the maximum."""

import torch
from torch import nn
from torch.nn import functional as F


class MaxPool(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x.relu(), 2)


def make():
    return MaxPool(), (torch.randn(2, 3, 12, 12),)
