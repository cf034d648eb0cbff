"""The Triton kernel of "rows": a chunk's logits become their gradient in place, and each row its loss.

A row is read twice, the second time out of the cache; every lane keeps a sum. Logits are float32, and their gradient
has the dtype of h, in the upper half of the same row where that has 16 bits. It is written from the last column to the
first, so that it only takes the place of logits that have been read.
"""

import triton
import triton.language as tl

from minikernel.ops.linear_cross_entropy.recomputed_kernels import LN2, LOG2E, LOWEST, MOST, against_target


@triton.jit
def summed(
    logits, bias, spread, picked, logit, stride, classes,
    HAS_BIAS: tl.constexpr, SMOOTH: tl.constexpr, FIXED: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The highest logit in powers of two, or `logit` if FIXED; the others' exponentials below it, added up; the spread.

    Whoever looks for the highest takes two exponentials of each logit, one to scale what there is.
    """
    lane = tl.arange(0, BLOCK)
    lane_highest = tl.full([BLOCK], LOWEST, tl.float32)
    lane_sums = tl.zeros([BLOCK], tl.float32)
    spread_sums = tl.zeros([BLOCK], tl.float32)
    highest = logit * LOG2E
    for first in tl.range(0, classes, BLOCK, num_stages=STAGES):
        column = first + lane
        values = tl.load(logits + column, mask=column < stride, other=0.0).to(tl.float32)
        if HAS_BIAS:
            values += tl.load(bias + column, mask=column < classes, other=0.0).to(tl.float32)
        if SMOOTH:
            shares = tl.load(spread + column, mask=column < classes, other=0.0)
            spread_sums += tl.where(column < classes, values * shares, 0.0)
        values = tl.where((column == picked) | (column >= classes), float("-inf"), values)
        if FIXED:
            lane_sums += tl.exp2(tl.fma(values, LOG2E, -highest))
        else:
            higher = tl.maximum(lane_highest, values * LOG2E)
            lane_sums = lane_sums * tl.exp2(lane_highest - higher) + tl.exp2(tl.fma(values, LOG2E, -higher))
            lane_highest = higher
    if not FIXED:
        highest = tl.maximum(tl.max(lane_highest), highest)
        lane_sums *= tl.exp2(lane_highest - highest)
    return highest, tl.sum(lane_sums), tl.sum(spread_sums)


@triton.jit(do_not_specialize=["upstream_step", "rows", "classes", "ignore_index"])
def rows_kernel(
    losses,  # (M,)
    weights,  # (M,)
    logits,  # (M, V) with rows `stride` apart; 16 divides that, so that a tile's loads are of 16 bytes whatever V is
    gradients,  # (M, V) with rows `step` apart, which 16 divides too
    target, bias, class_weight, spread, upstream, upstream_step, stride, step, rows, classes, ignore_index, z_loss,
    keep, mass,
    HAS_BIAS: tl.constexpr, HAS_CLASS_WEIGHT: tl.constexpr, SMOOTH: tl.constexpr, SCALED: tl.constexpr,
    GRADIENT: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # so few programs that the rows they are at are still in the cache when they are read again
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        one_row(
            losses + row, weights + row, logits + tl.cast(row, tl.int64) * stride,
            gradients + tl.cast(row, tl.int64) * step, target + row, bias, class_weight, spread,
            upstream + tl.cast(row, tl.int64) * upstream_step, stride, classes, ignore_index, z_loss, keep, mass,
            HAS_BIAS, HAS_CLASS_WEIGHT, SMOOTH, SCALED, GRADIENT, BLOCK, STAGES,
        )  # fmt: skip


@triton.jit
def one_row(
    losses, weights, logits, gradients, target, bias, class_weight, spread, upstream, stride, classes, ignore_index,
    z_loss, keep, mass,
    HAS_BIAS: tl.constexpr, HAS_CLASS_WEIGHT: tl.constexpr, SMOOTH: tl.constexpr, SCALED: tl.constexpr,
    GRADIENT: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The loss, weight and gradient of the row that the pointers are at."""
    lane = tl.arange(0, BLOCK)
    wanted = tl.load(target).to(tl.int64)
    counted = wanted != ignore_index
    valid = (wanted >= 0) & (wanted < classes)
    picked = tl.where(valid, wanted, 0).to(tl.int32)
    logit = tl.load(logits + picked).to(tl.float32)
    if HAS_BIAS:
        logit += tl.load(bias + picked).to(tl.float32)
    highest, others, smooth = summed(
        logits, bias, spread, picked, logit, stride, classes, HAS_BIAS, SMOOTH, True, BLOCK, STAGES
    )  # fmt: skip
    # not below, or NaN: the target's logit is too far from the highest to be taken for it
    if tl.where(others < MOST, 0, 1) > 0:
        highest, others, smooth = summed(
            logits, bias, spread, picked, logit, stride, classes, HAS_BIAS, SMOOTH, False, BLOCK, STAGES
        )  # fmt: skip
    chosen, total, log_total, loss = against_target(logit, highest, others)
    factor = 1.0
    if HAS_CLASS_WEIGHT:
        factor = tl.load(class_weight + picked).to(tl.float32)
    share = factor * keep
    lse = highest * LN2 + log_total
    coefficient = share + 2.0 * z_loss * lse + mass
    loss = loss * share + z_loss * lse * lse
    if SMOOTH:
        loss += mass * lse - smooth
    broken = tl.where(valid, 1.0, float("nan"))
    tl.store(losses, tl.where(counted, loss * broken, 0.0))
    tl.store(weights, tl.where(counted, factor * broken, 0.0))
    if GRADIENT:
        up = broken
        if SCALED:
            up *= tl.load(upstream).to(tl.float32)
        scale = coefficient / total * up
        at_target = (chosen * (coefficient - share) - share * others) / total * up
        # the last columns first: they are the ones still in the caches
        last = (classes - 1) // BLOCK * BLOCK
        for back in tl.range(0, classes, BLOCK, num_stages=STAGES):
            column = last - back + lane
            values = tl.load(logits + column, mask=column < stride, other=0.0).to(tl.float32)
            if HAS_BIAS:
                values += tl.load(bias + column, mask=column < classes, other=0.0).to(tl.float32)
            gradient = tl.exp2(tl.fma(values, LOG2E, -highest)) * scale
            gradient = tl.where(column == picked, at_target, gradient)
            if SMOOTH:
                gradient -= tl.load(spread + column, mask=column < classes, other=0.0) * up
            # a class that only fills up is in the products too
            gradient = tl.where(counted & (column < classes), gradient, 0.0)
            # the last two tiles' gradients lie where other threads may still have to read
            tl.debug_barrier()
            tl.store(gradients + column, gradient.to(gradients.dtype.element_ty), mask=column < stride)


@triton.jit(do_not_specialize=["size"])
def times_kernel(product, gradient, factor, size, BLOCK: tl.constexpr):
    """A gradient times one number, rounded once; torch's own, of a number on a GPU, moves one element at a time."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    by = tl.load(factor).to(tl.float32)
    # rounding by a constant shows the compiler that vectors are inside or outside, and it moves vectors
    whole = size // 16 * 16
    place = start + tl.arange(0, BLOCK)
    values = tl.load(gradient + place, mask=place < whole, other=0.0).to(tl.float32) * by
    tl.store(product + place, values.to(product.dtype.element_ty), mask=place < whole)
    if start + BLOCK >= size:
        rest = whole + tl.arange(0, 16)
        few = tl.load(gradient + rest, mask=rest < size, other=0.0).to(tl.float32) * by
        tl.store(product + rest, few.to(product.dtype.element_ty), mask=rest < size)
