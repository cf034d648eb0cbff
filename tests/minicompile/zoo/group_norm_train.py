"""GroupNorm and a bilinear resize, forward and backward."""

import torch
from torch import nn
from torch.nn import functional as F

TRAIN = True


class GroupNormTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.scale = nn.GroupNorm(3, 6), nn.Parameter(torch.ones(6, 1, 1))

    def forward(self, x):
        x = self.norm(x * self.scale)
        return F.interpolate(x, scale_factor=2, mode="bilinear").square().mean()


def make():
    return GroupNormTrain(), (torch.randn(2, 6, 5, 5),)
