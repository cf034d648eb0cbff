"""The scan of a logarithm of sums of exponentials."""

import torch
from torch import nn


class LogCumulative(nn.Module):
    def forward(self, x):
        return torch.logcumsumexp(x, -1).tanh()


def make():
    return LogCumulative(), (torch.randn(4, 50),)
