"""A Fourier transform between elementwise operations."""

import torch
from torch import nn


class Fourier(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x * 2).abs() + 1


def make():
    return Fourier(), (torch.randn(4, 64),)
