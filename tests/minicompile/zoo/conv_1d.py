"""A convolution over time, dilated and causal."""

import torch
from torch import nn
from torch.nn import functional as F


class Conv1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, 6, 3, dilation=2)

    def forward(self, x):
        return F.gelu(self.conv(F.pad(x, (4, 0)))) + x


def make():
    return Conv1d(), (torch.randn(2, 6, 21),)
