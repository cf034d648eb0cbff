"""Rounded to eight bits and back."""

import torch
from torch import nn


class FakeQuantised(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round().clamp(-128, 127).to(torch.int8), scale


def make():
    return FakeQuantised(), (torch.randn(16, 64),)
