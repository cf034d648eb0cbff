"""A choice between two results, element by element."""

import torch
from torch import nn


class ClampWhere(nn.Module):
    def forward(self, x, y):
        return torch.where(x > 0, x.clamp(max=1), y.exp()) + x.sign()


def make():
    return ClampWhere(), (torch.randn(17, 19), torch.randn(19))
