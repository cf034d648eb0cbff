"""Two models beside the lab's own for the page on Inductor over time: each is one thing that a version changed."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class QuantisedNorm(nn.Module):
    """RMSNorm over rows of 1,024, then groups of 32 as int8: (512, 1024) to (512, 32, 32) and their scales."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(1024)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        groups = self.norm(x).view(x.shape[0], -1, 32)
        scale = groups.abs().amax(-1, keepdim=True) / 127
        return (groups / scale).round().to(torch.int8), scale


class LongSoftmax(nn.Module):
    """Softmax over rows that are too long for a block: (2048, 16384)."""

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, dim=-1)


def quantised_norm() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    return QuantisedNorm().eval(), (torch.randn(512, 1024),)


def long_softmax() -> tuple[nn.Module, tuple[Tensor]]:
    return LongSoftmax().eval(), (torch.zeros(2048, 16384),)
