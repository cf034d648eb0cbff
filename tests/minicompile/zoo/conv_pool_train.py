"""Convolution, activation and pooling, forward and backward."""

import torch
from torch import nn
from torch.nn import functional as F

TRAIN = True


class ConvPoolTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, x):
        return F.max_pool2d(F.silu(self.conv(x)), 2).mean()


def make():
    return ConvPoolTrain(), (torch.randn(2, 3, 8, 8),)
