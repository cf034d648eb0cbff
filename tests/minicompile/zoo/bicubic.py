"""Sixteen neighbours."""

import torch
from torch import nn
from torch.nn import functional as F


class Bicubic(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=(9, 11), mode="bicubic", align_corners=True)


def make():
    return Bicubic(), (torch.randn(1, 2, 6, 7),)
