"""Memory that is changed between two kernels: what the second reads is not what the first stored there."""

import torch
from torch import nn


class ChangedBetween(nn.Module):
    def forward(self, x, at, counts):
        raised = (x * 2).scatter(1, at, -1.0)
        total = raised.softmax(-1).cumsum(-1)
        mask = (total > 0.5).scatter(1, at, torch.ones_like(at, dtype=torch.bool))
        counts.index_add_(0, at[0], mask[0, :3].float())
        return raised.masked_fill(mask, 0.0).sort(-1)[0], counts.exp(), mask


def make():
    return ChangedBetween(), (torch.randn(4, 20), torch.randint(0, 20, (4, 3)), torch.zeros(20))
