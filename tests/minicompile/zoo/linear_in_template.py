"""A linear layer that Inductor writes itself, out of a template, with what is around it; one product is kept."""

import torch
import torch.nn.functional as F
from torch import nn

OPTIONS = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
TARGETS = ("simulated",)  # for a CPU torch has such a template for weights that are constants


class LinearInTemplate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 96)

    def forward(self, x):
        kept = x @ x.T
        return F.gelu(self.layer(x.relu())) + 1, kept, kept.sigmoid()


def make():
    return LinearInTemplate(), (torch.randn(48, 64),)
