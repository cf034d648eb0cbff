"""A mean over windows that reach over the edge."""

import torch
from torch import nn
from torch.nn import functional as F


class AvgPoolCeil(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False) * 2


def make():
    return AvgPoolCeil(), (torch.randn(2, 3, 10, 11),)
