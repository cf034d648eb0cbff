"""Statistics and a concatenation over an axis whose length may change."""

import torch
from torch import nn

DYNAMIC = {0: [0]}  # the axes of each input whose length may change


class DynamicMean(nn.Module):
    def forward(self, x, y):
        z = torch.cat([x, y], 0)
        return (z - z.mean(0)) / z.std(0), z.shape[0] * z.amax(0)


def make():
    return DynamicMean(), (
        torch.randn(9, 14),
        torch.randn(5, 14),
    )
