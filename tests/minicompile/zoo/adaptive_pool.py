"""Pooling to a fixed size."""

import torch
from torch import nn
from torch.nn import functional as F


class AdaptivePool(nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool2d(x, 3) + 1


def make():
    return AdaptivePool(), (torch.randn(2, 4, 10, 11),)
