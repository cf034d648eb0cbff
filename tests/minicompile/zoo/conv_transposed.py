"""A convolution the other way round."""

import torch
from torch import nn
from torch.nn import functional as F


class ConvTransposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1)

    def forward(self, x):
        return F.leaky_relu(self.conv(x), 0.1)


def make():
    return ConvTransposed(), (torch.randn(2, 4, 6, 6),)
