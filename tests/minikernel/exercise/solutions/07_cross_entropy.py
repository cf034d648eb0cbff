"""Exercise 7, solved."""

import torch
import triton
import triton.language as tl

READS = 1
WRITES = 0
MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
SHARE_OF_COPY = 1


@triton.jit
def one_row(x, target, loss, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    values = tl.load(x + row * cols + at, mask=inside, other=float("-inf"))
    shifted = values - tl.max(values, 0)
    total = tl.sum(tl.exp(shifted), 0)
    word = tl.load(target + row)
    logit = tl.sum(tl.where(at == word, shifted, 0.0), 0)
    tl.store(loss + row, tl.log(total) - logit)


def cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    loss = torch.empty(len(rows), device=x.device)
    if len(rows):
        one_row[(len(rows),)](rows, target, loss, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1]))
    return loss.view(target.shape)
