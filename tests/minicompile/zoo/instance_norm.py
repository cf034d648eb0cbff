"""Each channel of each image by itself."""

import torch
from torch import nn
from torch.nn import functional as F


class InstanceNorm(nn.Module):
    def forward(self, x):
        return F.instance_norm(x) * 3


def make():
    return InstanceNorm(), (torch.randn(3, 4, 8, 9),)
