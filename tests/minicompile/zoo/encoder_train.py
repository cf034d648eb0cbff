"""A transformer's layer with dropout, forward and backward."""

import torch
from torch import nn

TRAIN = True


class EncoderTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x):
        return self.layer(x).pow(2).mean()


def make():
    return EncoderTrain(), (torch.randn(2, 6, 16),)
