"""A feed-forward layer with a residual, in bfloat16, forward and backward."""

import torch
from torch import nn
from torch.nn import functional as F

TRAIN = True


class GeluTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16, dtype=torch.bfloat16)
        self.first, self.last = nn.Linear(16, 32, dtype=torch.bfloat16), nn.Linear(32, 16, dtype=torch.bfloat16)

    def forward(self, x):
        return (x + self.last(F.gelu(self.first(self.norm(x))))).float().square().mean()


def make():
    return GeluTrain(), (torch.randn(5, 16, dtype=torch.bfloat16),)
