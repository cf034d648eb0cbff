"""Windows laid out as columns."""

import torch
from torch import nn
from torch.nn import functional as F


class Unfolded(nn.Module):
    def forward(self, x):
        return F.unfold(x.exp(), 3, padding=1)


def make():
    return Unfolded(), (torch.randn(2, 3, 8, 7),)
