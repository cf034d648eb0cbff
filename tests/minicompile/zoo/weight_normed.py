"""A weight as direction and length."""

import torch
from torch import nn


class WeightNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.utils.parametrizations.weight_norm(nn.Linear(20, 14))

    def forward(self, x):
        return self.proj(x).relu()


def make():
    return WeightNormed(), (torch.randn(6, 20),)
