"""Results that are the input, the input's view, and one tensor twice."""

import torch
from torch import nn


class Aliased(nn.Module):
    def forward(self, x):
        y = x.cos()
        return x, x.T, y, y, y.view(-1)


def make():
    return Aliased(), (torch.randn(6, 8),)
