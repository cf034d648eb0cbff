"""A residual branch that is dropped for some rows, as timm and torchvision do it."""

import torch
from torch import nn

TRAIN = True


class StochasticDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = nn.Linear(12, 12)

    def forward(self, x):
        keep = x.new_empty(x.shape[0], 1).bernoulli_(0.8)
        return (x + self.branch(x).relu() * keep / 0.8).square().mean()


def make():
    return StochasticDepth(), (torch.randn(10, 12),)
