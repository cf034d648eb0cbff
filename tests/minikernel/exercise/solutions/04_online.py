"""Exercise 4, solved."""

import torch
import triton
import triton.language as tl

READS = 2
WRITES = 1
MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
SHARE_OF_COPY = 2 / 3


@triton.jit
def online(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = float("-inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
        before = top
        top = tl.maximum(top, tl.max(values, 0))
        shift = tl.where(top == float("-inf"), 0.0, top)
        total = total * tl.exp(before - shift) + tl.sum(tl.exp(values - shift), 0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
        tl.store(y + row * cols + at, tl.exp(values - top) / total, mask=at < cols)


def softmax(x: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    y = torch.empty_like(rows)
    if len(rows):
        online[(len(rows),)](rows, y, rows.shape[1], BLOCK=min(1024, triton.next_power_of_2(rows.shape[1])))
    return y.view(x.shape)
