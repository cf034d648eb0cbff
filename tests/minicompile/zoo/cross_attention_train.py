"""Attention from one sequence to another, forward and backward."""

import torch
from torch import nn

TRAIN = True


class CrossAttentionTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x, memory):
        result, _ = self.attention(x, memory, memory, need_weights=False)
        return (x + result).square().mean()


def make():
    return CrossAttentionTrain(), (
        torch.randn(2, 5, 16),
        torch.randn(2, 7, 16),
    )
