"""A softmax of which groups are summed as well: both results stay, and the second reduction is nested in the first."""

import torch
from torch import nn
from torch.nn import functional as F

TARGETS = ("simulated",)
OPTIONS = {"triton.nested_reduction": True}  # as it is from torch 2.15 on


class GroupedSums(nn.Module):
    def forward(self, x, bias):
        weights = F.softmax(x + bias, -1)
        return weights, weights.view(x.shape[0], -1, 16).sum(-1)


def make():
    return GroupedSums(), (torch.randn(20, 512), torch.randn(512))
