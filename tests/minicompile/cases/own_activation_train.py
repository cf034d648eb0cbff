"""An activation as a Triton kernel of one's own with a gradient in plain torch, after a layer or alone, in training."""

import torch
import triton
import triton.language as tl
from torch import nn

TRAIN, TARGETS = True, ("simulated",)


@triton.jit
def gated(given, made, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(given + at, at < n)
    tl.store(made + at, x * tl.sigmoid(x), at < n)


class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        made = torch.empty_like(x)
        gated[(triton.cdiv(x.numel(), 128),)](x, made, x.numel(), BLOCK=128)
        ctx.save_for_backward(x)
        return made

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        half = torch.sigmoid(x)
        return slope * half * (1 + x * (1 - half))


class Model(nn.Module):
    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return Gated.apply(self.layer(x) * 2).square().mean()


def make():
    return Model(nn.Linear(8, 8)), (torch.randn(4, 8),)


def make_without_a_parameter():
    return Model(nn.Identity()), (torch.randn(4, 8),)
