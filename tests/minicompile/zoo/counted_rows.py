"""As many rows as a tensor says, read off it within the graph."""

import torch
from torch import nn

DYNAMO = {"capture_scalar_outputs": True}


class CountedRows(nn.Module):
    def forward(self, x, count):
        rows = count.item()
        torch._check(rows >= 2)
        torch._check(rows <= x.shape[0])
        head = x.narrow(0, 0, rows)
        return head.softmax(0), torch.ones(rows, device=x.device).cumsum(0) + x.sum()


def make():
    return CountedRows(), (torch.randn(30, 7), torch.tensor(11))
