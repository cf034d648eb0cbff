"""Two halves of one tensor, one of them gating the other."""

import torch
from torch import nn
from torch.nn import functional as F


class Swiglu(nn.Module):
    def forward(self, x):
        gate, value = x.chunk(2, -1)
        return F.silu(gate) * value


def make():
    return Swiglu(), (torch.randn(24, 96),)
