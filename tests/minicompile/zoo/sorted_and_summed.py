"""A sort along rows and a sum over all of them, which cannot share their loops."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        values, places = (x + 1).sort(dim=-1, stable=True)
        return values, places.float().mean()


def make():
    return Model(), (torch.randn(5, 40),)
