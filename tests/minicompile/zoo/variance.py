"""Mean and variance, which only the result of the division needs."""

import torch
from torch import nn


class Variance(nn.Module):
    def forward(self, x):
        variance, mean = torch.var_mean(x, -1, keepdim=True)
        return (x - mean) / (variance + 1e-5).sqrt()


def make():
    return Variance(), (torch.randn(12, 200),)
