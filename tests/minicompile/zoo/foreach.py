"""The same operation over a list of tensors."""

import torch
from torch import nn


class Foreach(nn.Module):
    def forward(self, x, y, z):
        scaled = torch._foreach_mul([x, y, z], 0.9)
        return torch._foreach_add(scaled, [x, y, z], alpha=0.1)


def make():
    return Foreach(), (torch.randn(8, 4), torch.randn(3, 5), torch.randn(10))
