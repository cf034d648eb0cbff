"""The logarithm of a sum of exponentials."""

import torch
from torch import nn


class LogSumExp(nn.Module):
    def forward(self, x):
        return torch.logsumexp(x, -1) + x[:, 0]


def make():
    return LogSumExp(), (torch.randn(18, 150),)
