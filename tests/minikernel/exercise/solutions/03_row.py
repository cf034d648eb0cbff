"""Exercise 3, solved."""

import torch
import triton
import triton.language as tl

READS = 1
WRITES = 1
MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
SHARE_OF_COPY = 1


@triton.jit
def one_row(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    values = tl.load(x + row * cols + at, mask=inside, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * cols + at, powers / tl.sum(powers, 0), mask=inside)


def softmax(x: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    y = torch.empty_like(rows)
    if len(rows):
        one_row[(len(rows),)](rows, y, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1]))
    return y.view(x.shape)
