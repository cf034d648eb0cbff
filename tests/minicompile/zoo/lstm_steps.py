"""Three steps of an LSTM."""

import torch
from torch import nn


class LstmSteps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)

    def forward(self, x, hidden, state):
        for step in range(3):
            hidden, state = self.cell(x[:, step], (hidden, state))
        return hidden, state


def make():
    return LstmSteps(), (
        torch.randn(2, 3, 6),
        torch.randn(2, 8),
        torch.randn(2, 8),
    )
