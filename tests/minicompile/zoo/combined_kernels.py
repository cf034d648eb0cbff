"""Kernels side by side that Inductor combines, of which it then writes several: small ones, large ones, reductions."""

import torch
from torch import nn

OPTIONS = {"combo_kernels": True}
TARGETS = ("simulated",)  # Triton has them alone


class Combined(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 1)

    def forward(self, x, image):
        sums = (x * 2).sum(0), x.cos().mean(1), x.cumsum(1)
        return *sums, self.convolution(image).relu().amax((2, 3)), torch.softmax(x, -1).var()


def make():
    return Combined(), (torch.randn(36, 48), torch.randn(2, 3, 9, 10))
