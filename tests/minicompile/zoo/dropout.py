"""Random numbers in a kernel."""

import torch
from torch import nn
from torch.nn import functional as F


class Dropout(nn.Module):
    def forward(self, x):
        return F.dropout(x.exp(), 0.3, training=True)


def make():
    return Dropout(), (torch.randn(20, 30),)
