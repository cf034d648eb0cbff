"""A scan with values and places."""

import torch
from torch import nn


class CumulativeMaximum(nn.Module):
    def forward(self, x):
        values, places = torch.cummax(x.exp(), -1)
        return values * 2, places


def make():
    return CumulativeMaximum(), (torch.randn(5, 64),)
