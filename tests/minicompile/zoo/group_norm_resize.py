"""GroupNorm, SiLU, bilinear interpolation."""

import torch
from torch import nn
from torch.nn import functional as F


class GroupNormResize(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, 8)

    def forward(self, x):
        return F.interpolate(F.silu(self.norm(x)), scale_factor=2, mode="bilinear")


def make():
    return GroupNormResize(), (torch.randn(2, 8, 6, 6),)
