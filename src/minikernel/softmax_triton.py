"""dev"""
import torch, triton
import triton.language as tl

@triton.jit
def exponential_for_sum(x, shift):
    return tl.exp2((x - shift) * 1.4426950408889634)

@triton.jit
def exponential_accurate(x, shift):
    difference = x - shift
    lost = x - (difference + shift)
    scaled = difference * 1.4426950216293335
    correction = tl.fma(difference, 1.3349758e-8, lost)
    correction = tl.fma(tl.fma(difference, 1.4426950216293335, -scaled), 0.6931471805599453, correction)
    power = tl.exp2(scaled)
    return tl.fma(power, tl.minimum(correction, 1.0), power)

@triton.jit
def exponential(x, shift, ACCURATE: tl.constexpr):
    if ACCURATE:
        return exponential_accurate(x, shift)
    else:
        return exponential_for_sum(x, shift)

@triton.jit
def softmax_kernel(y, x, rows, cols: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = row < rows
    start = row * cols
    ACCURATE: tl.constexpr = x.dtype.element_ty == tl.float32
    col = tl.arange(0, BLOCK)[None, :]
    if cols <= BLOCK:
        mask = inside & (col < cols)
        value = tl.load(x + start + col, mask=mask, other=float("-inf")).to(tl.float32)
        shift = tl.floor(tl.max(value, axis=1, keep_dims=True))
        e = exponential(value, shift, ACCURATE)
        scale = 1.0 / tl.sum(e, axis=1, keep_dims=True)
        tl.store(y + start + col, (e * scale).to(y.dtype.element_ty), mask=mask)
    elif cols <= BLOCK + TAIL:
        tail = BLOCK + tl.arange(0, TAIL)[None, :]
        mask = inside & (tail < cols)
        value = tl.load(x + start + col, mask=inside, other=float("-inf")).to(tl.float32)
        rest = tl.load(x + start + tail, mask=mask, other=float("-inf")).to(tl.float32)
        shift = tl.floor(tl.maximum(tl.max(value, axis=1, keep_dims=True), tl.max(rest, axis=1, keep_dims=True)))
        e = exponential(value, shift, ACCURATE)
        er = exponential(rest, shift, ACCURATE)
        scale = 1.0 / (tl.sum(e, axis=1, keep_dims=True) + tl.sum(er, axis=1, keep_dims=True))
        tl.store(y + start + col, (e * scale).to(y.dtype.element_ty), mask=inside)
        tl.store(y + start + tail, (er * scale).to(y.dtype.element_ty), mask=mask)
    else:
        shift = tl.full([ROWS, BLOCK], -3.4028234663852886e38, tl.float32)
        total = tl.zeros([ROWS, BLOCK], tl.float32)
        for first in range(0, cols, BLOCK):
            mask = inside & (first + col < cols)
            value = tl.load(x + start + first + col, mask=mask, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(shift, tl.floor(value))
            total = total * exponential_for_sum(shift, higher) + exponential_for_sum(value, higher)
            shift = higher
        row_shift = tl.max(shift, axis=1, keep_dims=True)
        scale = 1.0 / tl.sum(total * exponential_for_sum(shift, row_shift), axis=1, keep_dims=True)
        for first in range(0, cols, BLOCK):
            mask = inside & (first + col < cols)
            value = tl.load(x + start + first + col, mask=mask, other=float("-inf")).to(tl.float32)
            e = exponential(value, row_shift, ACCURATE)
            tl.store(y + start + first + col, (e * scale).to(y.dtype.element_ty), mask=mask)
