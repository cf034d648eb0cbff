"""Classes as rows of zeros and a one."""

import torch
from torch import nn
from torch.nn import functional as F


class OneHotRows(nn.Module):
    def forward(self, ids, table):
        return F.one_hot(ids, 9).float() @ table + 1


def make():
    return OneHotRows(), (
        torch.randint(0, 9, (14,)),
        torch.randn(9, 6),
    )
