"""Exercise 2, solved."""

import torch

READS = 2
WRITES = 1
MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
SHARE_OF_COPY = 2 / 3
BLOCK = 64


def softmax(x: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1])
    y = torch.empty(rows.shape)
    for start in range(0, len(rows), BLOCK):
        block, out = rows[start : start + BLOCK], y[start : start + BLOCK]
        torch.sub(block, block.amax(-1, keepdim=True), out=out)
        out.exp_()
        out.div_(out.sum(-1, keepdim=True))
    return y.view(x.shape)
