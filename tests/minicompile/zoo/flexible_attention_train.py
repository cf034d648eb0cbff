"""Flexible attention in training: a template for each direction, what follows fused to the first."""

import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

TRAIN = True
TARGETS = ("simulated",)  # torch has no backward of it for a CPU


class FlexibleAttentionTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score - (i - j).abs() * 0.1).tanh().mean()


def make():
    return FlexibleAttentionTrain(), (torch.randn(1, 2, 128, 16),)
