"""A scan of one long row, which a GPU splits among blocks that hand on what they have."""

import torch
from torch import nn


class LongCumulativeSum(nn.Module):
    def forward(self, x):
        return x.exp().cumsum(0)


def make():
    return LongCumulativeSum(), (torch.randn(70001),)
