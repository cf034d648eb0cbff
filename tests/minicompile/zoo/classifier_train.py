"""A classifier with its loss: the mask that its backward pass needs is made by a pattern, and nothing else reads it."""

import torch
from torch import nn
from torch.nn import functional as F

TRAIN = True


class ClassifierTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x, labels):
        return F.cross_entropy(self.layers(x), labels)


def make():
    return ClassifierTrain(), (torch.randn(6, 8), torch.randint(0, 3, (6,)))
