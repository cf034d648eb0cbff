"""Half and bfloat16 beside each other."""

import torch
from torch import nn


class MixedPrecision(nn.Module):
    def forward(self, x, y):
        return (x.float() * y.float()).sum(-1), x * 2, (y + 1).half()


def make():
    return MixedPrecision(), (
        torch.randn(9, 48).half(),
        torch.randn(9, 48).bfloat16(),
    )
