"""Sliding windows with one row of memory beneath."""

import torch
from torch import nn


class Windows(nn.Module):
    def forward(self, x):
        return x.unfold(-1, 6, 2).amax(-1) + x.sin().unfold(-1, 6, 2).mean(-1)


def make():
    return Windows(), (torch.randn(4, 30),)
