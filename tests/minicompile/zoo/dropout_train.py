"""Dropout between two layers, forward and backward."""

import torch
from torch import nn
from torch.nn import functional as F

TRAIN = True


class DropoutTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(12, 20), nn.Linear(20, 3)

    def forward(self, x):
        return self.last(F.dropout(self.first(x).relu(), 0.25)).square().mean()


def make():
    return DropoutTrain(), (torch.randn(7, 12),)
