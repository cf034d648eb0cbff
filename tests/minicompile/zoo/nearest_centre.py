"""The nearest of some centres, of which a C++ kernel declares a tile that it never stores."""

import torch
from torch import nn


class NearestCentre(nn.Module):
    def forward(self, x, centres):
        return (x.pow(2).sum(1, keepdim=True) - x @ centres.t() + centres.pow(2).sum(1)).argmin(1)


def make():
    return NearestCentre(), (torch.randn(16, 7), torch.randn(32, 7))
