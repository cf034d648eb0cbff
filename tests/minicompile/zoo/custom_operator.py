"""An operator of the user's own, of which torch.compile sees no inside, between two of torch's."""

import torch
from torch import nn


@torch.library.custom_op("minigpt_zoo::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


class CustomOperator(nn.Module):
    def forward(self, x):
        return doubled(x.relu()).softmax(-1)


def make():
    return CustomOperator(), (torch.randn(10, 40),)
