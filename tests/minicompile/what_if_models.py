"""Small models that each show what one knob does, and the what-ifs of them, each compiled once in a session."""

import warnings
from functools import cache

import torch
from torch import nn

from minicompile.flipping import what_if
from minimodel.numpy_minigpt import MiniGPTConfig
from minimodel.torch_minigpt import Attention

TIMED = "vectors"
WIDE = 2048  # more than a persistent reduction takes


class Chain(nn.Module):
    """Two results of one input, which fusion computes in one kernel."""

    def forward(self, x):
        return x.exp(), x.sin()


class Products(nn.Module):
    """A matrix product, and an elementwise result over it: in place, or in an epilogue."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x)) + x


class Turned(nn.Module):
    """Written in one order of axes and read in another."""

    def forward(self, x):
        return x.transpose(0, 1).exp()


class Loss(nn.Module):
    """A scalar, of a softmax whose backward needs its result."""

    def forward(self, x):
        return x.softmax(dim=-1).square().sum()


def attention() -> nn.Module:
    torch.manual_seed(0)
    return Attention(MiniGPTConfig(vocab_size=32, block_size=16, n_layer=1, n_head=2, n_embd=16))


MODELS = {  # knob -> target, model, size of its input
    "fusion": ("simulated", Chain, (64, 128)),
    "inplace_buffers": ("simulated", Products, (8, 32)),
    "online_softmax": ("simulated", lambda: nn.Softmax(dim=-1), (64, WIDE)),
    "persistent_reductions": ("simulated", lambda: nn.Softmax(dim=-1), (64, 128)),
    "attention": ("cpu", attention, (2, 8, 16)),
    "dynamic_shapes": ("simulated", lambda: nn.Softmax(dim=-1), (64, 128)),
    "epilogue_fusion": ("cpu", Products, (8, 32)),
    "loop_order": ("simulated", Turned, (64, 128)),
    "vectors": ("cpu", Chain, (64, 128)),
}


@cache
def found(knob: str) -> dict:
    """The what-if of a knob on its model; one of them is timed, in a few rounds."""
    target, make, size = MODELS[knob]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return what_if(
            make().eval(), (torch.randn(size),), knob, target=target, name=knob, rounds=3 if knob == TIMED else 0
        )


def code(side: dict) -> str:
    return "\n".join(line for graph in side["graphs"] for line in graph["lines"])
