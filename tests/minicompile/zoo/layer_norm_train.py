"""LayerNorm, forward and backward."""

import torch
from torch import nn

TRAIN = True


class LayerNormTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(x).square().mean()


def make():
    return LayerNormTrain(), (torch.randn(10, 64, requires_grad=True),)
