"""Joins integers, made by rounding, to floats: the numbers are again those that were rounded."""

import torch
from torch import nn


class CutOffAndJoined(nn.Module):
    def forward(self, x):
        logarithms = x.log_softmax(0)
        cut = (logarithms * 10).round().int()
        return cut.sign().abs(), torch.cat([cut, logarithms], 0)


def make():
    return CutOffAndJoined(), (torch.randn(9, 11, 13),)
