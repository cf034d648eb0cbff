"""What an exercise is timed against where that is not torch's own: the rung before it."""

import torch


def textbook(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis as its formula reads, five operations of PyTorch on the whole tensor."""
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)
