"""A linear layer over an axis whose length may change."""

import torch
from torch import nn

DYNAMIC = {0: [1]}  # the axes of each input whose length may change


class DynamicLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(16, 8)

    def forward(self, x):
        return self.proj(x).relu()


def make():
    return DynamicLinear(), (torch.randn(4, 9, 16),)
