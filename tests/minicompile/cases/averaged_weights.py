"""Running averages of a layer's weights, each changed in place by as much as a counter of the steps says."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 20)
        self.register_buffer("weight", torch.zeros(20, 12))
        self.register_buffer("bias", torch.zeros(20))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.steps += 1
        share = 1 - torch.clamp((1 + self.steps) / (10 + self.steps), max=0.999)
        self.weight.lerp_(self.layer.weight.detach(), share)
        self.bias.lerp_(self.layer.bias.detach(), share)
        return torch.relu(x @ self.weight.t() + self.bias)


def make():
    return Model(), (torch.randn(6, 12),)
