"""A scan, a norm and a slice written in place, forward and backward."""

import torch
from torch import nn

TRAIN = True


class ScanTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(26))

    def forward(self, x):
        y = torch.cumsum(x * self.scale, -1)
        z = torch.zeros_like(y)
        z[:, 2:] = y[:, :-2]
        return (y - z).norm(dim=-1).mean()


def make():
    return ScanTrain(), (torch.randn(5, 26),)
