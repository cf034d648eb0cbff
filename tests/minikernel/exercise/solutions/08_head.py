"""Exercise 8, solved."""

import torch

READS = 1.34
WRITES = 0.17
MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
SHARE_OF_COPY = 1 / (READS + WRITES)
BLOCK = 64


def head_loss(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    rows, words = x.reshape(-1, x.shape[-1]), target.reshape(-1)
    loss = torch.empty(len(rows))
    logits = torch.empty(min(BLOCK, len(rows)), len(weight))
    for start in range(0, len(rows), BLOCK):
        block, word = rows[start : start + BLOCK], words[start : start + BLOCK, None]
        part = logits[: len(block)]
        torch.mm(block, weight.t(), out=part)
        part.sub_(part.amax(-1, keepdim=True))
        named = part.gather(-1, word)
        total = part.exp_().sum(-1, keepdim=True)
        torch.sub(total.log_(), named, out=loss[start : start + BLOCK, None])
    return loss.view(target.shape)
