"""Two masks, one after the other."""

import torch
from torch import nn


class MaskedFills(nn.Module):
    def forward(self, x, mask):
        return x.masked_fill(mask, -1.0).masked_fill(x > 1, 0.5).exp()


def make():
    return MaskedFills(), (
        torch.randn(19, 23),
        torch.randn(19, 1) > 0,
    )
