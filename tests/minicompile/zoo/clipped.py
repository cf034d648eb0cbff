"""Gradients scaled to a common norm."""

import torch
from torch import nn


class Clipped(nn.Module):
    def forward(self, x, y, z):
        norms = torch._foreach_norm([x, y, z])
        scale = (1.0 / (torch.stack(norms).norm() + 1e-6)).clamp(max=1.0)
        return torch._foreach_mul([x, y, z], scale)


def make():
    return Clipped(), (
        torch.randn(12, 9),
        torch.randn(31),
        torch.randn(4, 4, 4),
    )
