"""Memory that is reached through tensor descriptors, as Hopper copies blocks, instead of through pointers."""

import torch
import torch.nn.functional as F
from torch import nn

OPTIONS = {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True}
TARGETS = ("simulated",)  # Triton has them alone


class Normalised(nn.Module):
    def forward(self, x, bias):
        return F.layer_norm(x + bias, (64,)).tanh(), (x * 2).sum(0)


def make():
    return Normalised(), (torch.randn(48, 64), torch.randn(64))
