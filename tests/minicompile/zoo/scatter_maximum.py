"""The largest of what falls on the same place."""

import torch
from torch import nn


class ScatterMaximum(nn.Module):
    def forward(self, x, places):
        return torch.zeros(6, 5, device=x.device).scatter_reduce(0, places, x.abs(), "amax") + 1


def make():
    return ScatterMaximum(), (
        torch.randn(15, 5),
        torch.randint(0, 6, (15, 5)),
    )
