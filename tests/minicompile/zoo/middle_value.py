"""The median of each row."""

import torch
from torch import nn


class MiddleValue(nn.Module):
    def forward(self, x):
        values, places = x.cos().median(-1)
        return values * 2, places


def make():
    return MiddleValue(), (torch.randn(8, 31),)
