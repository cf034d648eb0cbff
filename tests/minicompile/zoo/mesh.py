"""Coordinates that no input holds."""

import torch
from torch import nn


class Mesh(nn.Module):
    def forward(self, x):
        rows, columns = torch.meshgrid(
            torch.linspace(-1, 1, 12, device=x.device), torch.arange(10.0, device=x.device), indexing="ij"
        )
        return (rows**2 + columns) * x, torch.eye(10, device=x.device) + x[:10]


def make():
    return Mesh(), (torch.randn(12, 10),)
