"""Attention whose scores a function of the user's changes, which torch writes into a template of its own."""

import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention


def nearer_is_better(score, batch, head, query, key):
    return score - (query - key).abs() * 0.1


class FlexibleAttention(nn.Module):
    def forward(self, q, k, v):
        return flex_attention(q, k, v, score_mod=nearer_is_better)


def make():
    return FlexibleAttention(), tuple(torch.randn(1, 2, 128, 16) for _ in range(3))
