"""Columns added up into an image."""

import torch
from torch import nn
from torch.nn import functional as F


class Folded(nn.Module):
    def forward(self, x):
        return F.fold(x * 2, (7, 6), 3).tanh()


def make():
    return Folded(), (torch.randn(2, 18, 20),)
