"""Elementwise operations, one after another."""

import torch
from torch import nn


class Chain(nn.Module):
    def forward(self, x, y):
        return torch.tanh(torch.sin(x) + y) * 0.5


def make():
    return Chain(), (torch.randn(33, 40), torch.randn(33, 40))
