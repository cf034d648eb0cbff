"""The sum of absolute values, and its first power, which nothing computes."""

import torch
from torch import nn


class FirstPower(nn.Module):
    def forward(self, x):
        norm = torch.linalg.vector_norm(x, 1, 0, keepdim=True)
        return norm.floor(), norm - norm.mean()


def make():
    return FirstPower(), (torch.randn(5, 11, 13),)
