"""A step over more tensors than one kernel takes parameters: torch writes several kernels for one operation."""

import torch
from torch import nn

TARGETS = ("simulated",)  # C++ has no limit


class Shrink(nn.Module):
    def forward(self, *tensors):
        weights, gradients = tensors[:100], tensors[100:]
        smaller = torch._foreach_mul(weights, 0.99)
        return torch._foreach_sub(smaller, gradients)


def make():
    sizes = [8 + number % 5 for number in range(100)]
    return Shrink(), tuple(torch.randn(size) for size in sizes * 2)
