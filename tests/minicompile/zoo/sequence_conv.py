"""A convolution along a sequence whose channels come last, as state space models and audio encoders have it."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 4, padding=3, groups=8)

    def forward(self, x):
        return F.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)


def make():
    return Model(), (torch.randn(2, 6, 8),)
