"""Bits that are taken for numbers of another kind and back: rounding at random, a sign, an exponent."""

import torch
from torch import nn


class Bits(nn.Module):
    def forward(self, x, noise):
        bits = x.view(torch.int32)
        rounded = ((bits + noise) & -65536).view(torch.float32)
        exponent = (x.reshape(8, -1).view(torch.int32) >> 23) & 255
        return rounded * 2, exponent, (bits < 0).sum(0), x.half().view(torch.int16) + 1


def make():
    return Bits(), (torch.randn(16, 24), torch.randint(0, 65536, (16, 24), dtype=torch.int32))
