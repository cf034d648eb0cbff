"""Random numbers that both sides draw alike: a kernel by seed and offset, the graph's node by seed and place.

They are no numbers that a GPU draws from the seed; what is compared is what becomes of them.
"""

import math

import torch

SEEDS = 0x5DEECE66D  # the seeds that a graph draws count on from here


def _mixed(values: torch.Tensor) -> torch.Tensor:
    """Bits of int64 that look random."""
    values = (values ^ ((values >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    values = (values ^ ((values >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return values ^ ((values >> 31) & 0x1FFFFFFFF)


def _bits(seed: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    return _mixed(_mixed(seed.to(torch.int64)) + offset.to(torch.int64))


def uniform(seed: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Of [0, 1), in float32."""
    return ((_bits(seed, offset) & 0xFFFFFF).to(torch.float64) / (1 << 24)).to(torch.float32)


def normal(seed: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Of mean 0 and deviation 1, in float32."""
    first = (uniform(seed, 2 * offset.to(torch.int64)).double() + 2**-25).clamp(max=1 - 2**-25)
    second = uniform(seed, 2 * offset.to(torch.int64) + 1).double()
    return (torch.sqrt(-2 * torch.log(first)) * torch.cos(2 * math.pi * second)).to(torch.float32)


def integers(seed: torch.Tensor, offset: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Of [low, high), in int64."""
    return (_bits(seed, offset) & 0x7FFFFFFFFFFFFF) % (high - low) + low


def seeds(count: int) -> torch.Tensor:
    """The seeds that a graph draws."""
    return torch.arange(count, dtype=torch.int64) + SEEDS
