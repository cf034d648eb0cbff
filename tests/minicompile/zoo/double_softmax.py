"""Softmax in double precision."""

import torch
from torch import nn
from torch.nn import functional as F


class DoubleSoftmax(nn.Module):
    def forward(self, x):
        return F.softmax(x, -1) * 2, x.double().sum()


def make():
    return DoubleSoftmax(), (torch.randn(7, 65, dtype=torch.float64),)
