"""Nearest neighbours."""

import torch
from torch import nn
from torch.nn import functional as F


class Resize(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=(14, 9)).tanh()


def make():
    return Resize(), (torch.randn(1, 3, 7, 5),)
