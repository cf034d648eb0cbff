"""Softmax in half precision."""

import torch
from torch import nn
from torch.nn import functional as F


class HalfSoftmax(nn.Module):
    def forward(self, x):
        return F.softmax(x.float(), -1).half()


def make():
    return HalfSoftmax(), (torch.randn(8, 120).half(),)
