"""A buffer that every call moves."""

import torch
from torch import nn


class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(10))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.count += 1
        return (x - self.mean) / self.count


def make():
    return RunningMean(), (torch.randn(13, 10),)
