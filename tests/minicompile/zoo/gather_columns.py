"""Reads where another input says."""

import torch
from torch import nn


class GatherColumns(nn.Module):
    def forward(self, x, places):
        return x.gather(1, places).exp() + 1


def make():
    return GatherColumns(), (torch.randn(7, 50), torch.randint(0, 50, (7, 12)))
