"""Windows over a signal, forward and backward."""

import torch
from torch import nn

TRAIN = True


class UnfoldTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(21))

    def forward(self, x):
        return (x * self.scale).unfold(-1, 5, 2).softmax(-1).square().sum()


def make():
    return UnfoldTrain(), (torch.randn(3, 21),)
