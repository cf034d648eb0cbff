"""Convolution and batch norm, forward and backward."""

import torch
from torch import nn

TRAIN = True


class BatchNormTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.conv(x)).relu().pow(2).mean()


def make():
    return BatchNormTrain(), (torch.randn(2, 3, 10, 10),)
