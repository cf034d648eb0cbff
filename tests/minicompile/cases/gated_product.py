"""A branch between two products, with a product of the same kind and a softmax in it."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.within, self.after = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        h = torch.sigmoid(self.before(x))
        h = torch.cond(h.sum() > 10, self.taken, lambda h: h * 0.5, (h,))
        return torch.relu(self.after(h)).sum(-1)

    def taken(self, h):
        return torch.tanh(self.within(h)).softmax(-1)


def make():
    return Model(), (torch.randn(5, 8),)
