"""Stochastic gradient descent with momentum, in place."""

import torch
from torch import nn


class MomentumStep(nn.Module):
    def forward(self, weight, gradient, velocity):
        velocity.mul_(0.9).add_(gradient + 0.01 * weight)
        weight.sub_(0.1 * velocity)
        return weight.norm()


def make():
    return MomentumStep(), tuple(torch.randn(27, 14) for _ in range(3))
