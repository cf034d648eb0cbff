"""Two numbers of four bits out of each byte."""

import torch
from torch import nn


class Nibbles(nn.Module):
    def forward(self, x, packed, scale):
        low, high = (packed & 15).to(torch.float32) - 8, (packed >> 4).to(torch.float32) - 8
        return (torch.stack([low, high], -1).flatten(-2) * scale) @ x


def make():
    return Nibbles(), (
        torch.randn(32),
        torch.randint(0, 255, (10, 16), dtype=torch.uint8),
        torch.rand(10, 1),
    )
