"""Convolution and batch norm with fixed statistics, in another memory format."""

import torch
from torch import nn
from torch.nn import functional as F


class ConvNormEval(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8)

    def forward(self, x):
        return F.relu6(self.norm(self.conv(x)))


def make():
    return ConvNormEval(), (torch.randn(2, 4, 9, 9).to(memory_format=torch.channels_last),)
