"""Horner's rule, then Newton's."""

import torch
from torch import nn


class Polynomial(nn.Module):
    def forward(self, x):
        y = ((x * 0.3 + 1.2) * x - 0.7) * x + 2
        root = y.abs() + 1
        for _ in range(3):
            root = 0.5 * (root + y.abs() / root)
        return root


def make():
    return Polynomial(), (torch.randn(45, 22),)
