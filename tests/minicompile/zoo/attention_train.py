"""Causal attention of a whole block, forward and backward."""

import torch
from torch import nn

TRAIN = True


class AttentionTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.register_buffer("mask", torch.ones(7, 7, dtype=torch.bool).triu(1))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) * 0.35).masked_fill(self.mask, float("-inf"))
        return (scores.softmax(-1) @ v).square().mean()


def make():
    return AttentionTrain(), (torch.randn(2, 7, 16),)
