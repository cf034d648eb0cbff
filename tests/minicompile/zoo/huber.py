"""A loss with a branch."""

import torch
from torch import nn
from torch.nn import functional as F


class Huber(nn.Module):
    def forward(self, x, y):
        return F.smooth_l1_loss(x, y) + F.binary_cross_entropy_with_logits(x, y.sigmoid())


def make():
    return Huber(), (torch.randn(30, 20), torch.randn(30, 20))
