"""Exercise 1, solved."""

import torch

READS = 5
WRITES = 3
MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
SHARE_OF_COPY = 2 / 8


def softmax(x: torch.Tensor) -> torch.Tensor:
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)
