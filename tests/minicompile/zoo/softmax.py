"""Softmax over the last axis."""

import torch
from torch import nn
from torch.nn import functional as F


class Softmax(nn.Module):
    def forward(self, x):
        return F.softmax(x * 0.5, -1)


def make():
    return Softmax(), (torch.randn(14, 300),)
