"""An embedding, its mean, and the gradient that scatters."""

import torch
from torch import nn

TRAIN = True


class EmbeddingTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 16)

    def forward(self, ids):
        return self.table(ids).mean(1).square().sum()


def make():
    return EmbeddingTrain(), (torch.randint(0, 40, (6, 5)),)
