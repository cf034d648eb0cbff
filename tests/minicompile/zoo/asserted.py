"""A condition that is checked while the kernel runs."""

import torch
from torch import nn


class Asserted(nn.Module):
    def forward(self, x):
        torch._assert_async((x > -100).all(), "too small")
        return x.exp()


def make():
    return Asserted(), (torch.randn(5, 7),)
