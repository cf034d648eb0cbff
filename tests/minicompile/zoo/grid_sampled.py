"""An image, read where another input says."""

import torch
from torch import nn
from torch.nn import functional as F


class GridSampled(nn.Module):
    def forward(self, x, grid):
        return F.grid_sample(x, grid.tanh(), align_corners=False).sin()


def make():
    return GridSampled(), (
        torch.randn(2, 3, 8, 8),
        torch.randn(2, 5, 6, 2),
    )
