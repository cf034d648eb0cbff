"""A block that is compiled once and called twice with other weights, a scalar in it, and work after it."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.register_buffer("share", torch.tensor(0.5))

    @torch.compiler.nested_compile_region
    def forward(self, x):
        return torch.relu(self.norm(self.layer(x))) * self.share + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        return torch.tanh(self.second(self.first(x))).softmax(-1) * 2


def make():
    return Model(), (torch.randn(5, 8),)
