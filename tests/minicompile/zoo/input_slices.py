"""Parts of an input, changed where they lie."""

import torch
from torch import nn


class InputSlices(nn.Module):
    def forward(self, x, y):
        x[:, 3:] = y.sigmoid()
        return x.sum(-1)


def make():
    return InputSlices(), (
        torch.randn(9, 11),
        torch.randn(9, 8),
    )
