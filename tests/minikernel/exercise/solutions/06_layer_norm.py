"""Exercise 6, solved."""

import torch
import triton
import triton.language as tl

READS = 1
WRITES = 1
MEGABYTES = (READS + WRITES) * 4 * 4096 * 600 / 1e6
SHARE_OF_COPY = 1


@triton.jit
def one_row(x, weight, bias, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    values = tl.load(x + row * cols + at, mask=inside, other=0.0)
    mean = tl.sum(values, 0) / cols
    centred = tl.where(inside, values - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / cols
    normal = centred / tl.sqrt(variance + 1e-5)
    w = tl.load(weight + at, mask=inside)
    b = tl.load(bias + at, mask=inside)
    tl.store(y + row * cols + at, normal * w + b, mask=inside)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    y = torch.empty_like(rows)
    if len(rows):
        one_row[(len(rows),)](rows, weight, bias, y, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1]))
    return y.view(x.shape)
