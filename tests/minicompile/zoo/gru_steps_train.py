"""Two steps of a GRU, forward and backward."""

import torch
from torch import nn

TRAIN = True


class GruStepsTrain(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(6, 8)

    def forward(self, x, hidden):
        for step in range(2):
            hidden = self.cell(x[:, step], hidden)
        return hidden.square().mean()


def make():
    return GruStepsTrain(), (
        torch.randn(2, 2, 6),
        torch.randn(2, 8),
    )
