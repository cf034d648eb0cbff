"""What learners hand in: solutions of the exercise, right and wrong, one function each."""

import torch
import triton
import triton.language as tl

NOT_YET = "softmax is not filled in yet"


def unfilled(x):
    raise NotImplementedError(NOT_YET)


def stable(x):
    powers = (x - x.max(-1, keepdim=True).values).exp()
    return powers / powers.sum(-1, keepdim=True)


def unstable(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


def hangs(x):
    while x.ndim:
        pass


@triton.jit
def one_read(x, y, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    start = tl.program_id(0) * cols
    values = tl.load(x + start + at, mask=inside, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + start + at, powers / tl.sum(powers, 0), mask=inside)


@triton.jit
def two_reads(x, y, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < cols
    start = tl.program_id(0) * cols
    shift = tl.max(tl.load(x + start + at, mask=inside, other=float("-inf")), 0)
    powers = tl.exp(tl.load(x + start + at, mask=inside, other=float("-inf")) - shift)
    tl.store(y + start + at, powers / tl.sum(powers, 0), mask=inside)


def launched(kernel, x):
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    y = torch.empty_like(rows)
    if len(rows):
        kernel[(len(rows),)](rows, y, rows.shape[1], BLOCK=triton.next_power_of_2(rows.shape[1]))
    return y.view(x.shape)


def in_one_read(x):
    return launched(one_read, x)


def in_two_reads(x):
    return launched(two_reads, x)
