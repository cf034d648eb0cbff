"""Changes rows in place, which loops of two shapes read afterwards."""

import torch
from torch import nn
from torch.nn import functional as F


class ChangedAndRead(nn.Module):
    def forward(self, x, rows):
        changed = x.exp().index_add(1, rows, x)
        return changed.relu(), F.layer_norm(changed, changed.shape[1:])


def make():
    return ChangedAndRead(), (torch.randn(17, 23, 9), torch.randint(0, 23, (23,)))
