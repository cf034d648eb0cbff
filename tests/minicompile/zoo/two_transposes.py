"""Two results of one input, each beside another transpose: a kernel's blocks cannot follow both."""

import torch
from torch import nn


class TwoTransposes(nn.Module):
    def forward(self, x, first, second):
        return x + first.permute(2, 1, 0), x * second.transpose(1, 2)


def make():
    return TwoTransposes(), (torch.randn(8, 16, 32), torch.randn(32, 16, 8), torch.randn(8, 32, 16))
