"""The largest values of the last inputs: a list that is read, shifted by one place and written to."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.ones(4))

    def forward(self, x):
        scale = 9.0 / self.largest.amax()
        self.largest.copy_(torch.roll(self.largest, 1))
        self.largest[0] = x.abs().amax()
        return (x * scale).clamp(-9, 9).sum(1) / scale


def make():
    return Model(), (torch.randn(16, 64),)
