"""The largest few."""

import torch
from torch import nn


class TopK(nn.Module):
    def forward(self, x):
        values, places = torch.topk(x.sigmoid(), 4)
        return values / values.sum(-1, keepdim=True), places


def make():
    return TopK(), (torch.randn(11, 40),)
