"""A function with a backward pass of the user's own: a line that calls it became what its lines became."""

import torch
from torch import nn

TRAIN = True


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return gradient * (gate + x * gate * (1 - gate))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return Swish.apply(self.linear(x)).pow(2).mean()


def make():
    return Model(), (torch.randn(4, 8),)
