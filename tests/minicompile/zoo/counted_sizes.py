"""Sizes and a factor that are read off a tensor: of a part, of what is filled, counted and repeated."""

import torch
from torch import nn

DYNAMO = {"capture_scalar_outputs": True}


class CountedSizes(nn.Module):
    def forward(self, x, number):
        count, factor = number.item(), number.float().item()
        torch._check(count >= 2)
        torch._check(count <= x.shape[1])
        filled = torch.full((count, 3), factor, device=x.device).softmax(0)
        return x * count + factor, x.narrow(1, 0, count).amax(1), filled, torch.arange(count, device=x.device).repeat(2)


def make():
    return CountedSizes(), (torch.randn(30, 25), torch.tensor(7))
