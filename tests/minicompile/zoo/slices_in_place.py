"""Parts of a tensor, changed where they lie."""

import torch
from torch import nn


class SlicesInPlace(nn.Module):
    def forward(self, x, y):
        z = x.clone()
        z[:, :4] += y
        z[2:5, 1] = 7
        z[::2].mul_(0.5)
        return z


def make():
    return SlicesInPlace(), (
        torch.randn(9, 11),
        torch.randn(4),
    )
