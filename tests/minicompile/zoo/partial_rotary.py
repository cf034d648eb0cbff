"""Half of each head is turned by its place, and the other half is put back beside it, as in Phi and GPT-NeoX."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, cosine, sine):
        turned, kept = x[..., :4], x[..., 4:]
        first, second = turned.chunk(2, -1)
        turned = turned * cosine + torch.cat([-second, first], -1) * sine
        return torch.cat([turned, kept], -1) @ x.transpose(-1, -2)


def make():
    return Model(), (torch.randn(1, 2, 6, 8), torch.randn(6, 4), torch.randn(6, 4))
