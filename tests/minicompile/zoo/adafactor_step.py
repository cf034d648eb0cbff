"""A step with factored second moments."""

import torch
from torch import nn


class AdafactorStep(nn.Module):
    def forward(self, weight, gradient, rows, columns):
        square = gradient.square() + 1e-30
        rows = 0.9 * rows + 0.1 * square.mean(-1)
        columns = 0.9 * columns + 0.1 * square.mean(-2)
        scale = (rows / rows.mean()).unsqueeze(-1) * columns
        return weight - 0.01 * gradient * scale.rsqrt(), rows, columns


def make():
    return AdafactorStep(), (
        torch.randn(24, 18),
        torch.randn(24, 18),
        torch.rand(24),
        torch.rand(18),
    )
