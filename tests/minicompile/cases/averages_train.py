"""A loss, before which two running averages are changed in place and a third buffer takes a value of its own."""

import torch
from torch import nn

TRAIN = True


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("size", torch.ones(8))
        self.register_buffer("total", torch.zeros(8))
        self.register_buffer("ratio", torch.zeros(8))

    def forward(self, x):
        h = self.layer(x)
        with torch.no_grad():
            self.size.mul_(0.9).add_(h.abs().sum(0), alpha=0.1)
            self.total.mul_(0.9).add_(h.sum(0), alpha=0.1)
            ratio = self.total / self.size
            self.ratio.copy_(ratio)
        return h.square().mean()


def make():
    return Model(), (torch.randn(24, 8),)
