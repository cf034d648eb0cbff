"""A linear layer with an activation behind it."""

import torch
from torch import nn
from torch.nn import functional as F


class GeluBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(32, 48)

    def forward(self, x):
        return F.gelu(self.proj(x), approximate="tanh")


def make():
    return GeluBias(), (torch.randn(8, 32),)
