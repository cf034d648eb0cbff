"""Pooling by the mean, over overlapping windows."""

import torch
from torch import nn
from torch.nn import functional as F


class AvgPool(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 3, stride=1, padding=1).exp()


def make():
    return AvgPool(), (torch.randn(2, 3, 9, 9),)
