"""Writes where another input says."""

import torch
from torch import nn


class ScatterRows(nn.Module):
    def forward(self, x, places, y):
        return (x * 2).scatter(1, places, y.relu())


def make():
    return ScatterRows(), (torch.randn(6, 30), torch.randint(0, 30, (6, 5)), torch.randn(6, 5))
