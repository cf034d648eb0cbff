"""The Triton kernels of "recomputed": no logit is ever written.

Forward is attention with h as the queries and the weight as keys and values: while a row's exponentials are summed,
they are multiplied into the weight, which gives the core of h's gradient with the same logits. Backward computes the
logits once more, transposed, for the weight's gradient. So four products in all, and h and weight read a few times.

Exponents are fused products and sums, so that a large offset of all logits is taken off before anything is rounded.
The target's own exponential is left out of every sum and product: what it and the others have is put together at the
end, without subtracting two numbers near 1. All sums are float32 and in a fixed order.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
MOST = tl.constexpr(1e30)  # of exponentials: far below float32's largest, so that no sum of products overflows
LOWEST = tl.constexpr(-1e38)  # below every logit, and finite: a column of -infinity minus it is no NaN


@triton.jit
def capped(logits, softcap):
    """softcap tanh(logits / softcap), by one exponential."""
    share = logits / softcap
    # of the absolute value, so that it cannot overflow; 2 log2(e)
    small = tl.exp2(tl.abs(share) * -2.885390081777927)
    tanh = (1.0 - small) / (1.0 + small)
    square = share * share
    # near 0 that cancels; there a few terms of the series are as exact as float32
    series = share * (1.0 + square * (square * 0.13333333333333333 - 0.3333333333333333))
    return softcap * tl.where(square < 0.01, series, tl.where(share < 0, -tanh, tanh))


@triton.jit
def log_of_one_plus(x):
    """log(1 + x), right where x is far below 1 too (Kahan's)."""
    rounded = 1.0 + x
    return tl.where(rounded == 1.0, x, tl.log(rounded) * (x / (rounded - 1.0)))


@triton.jit
def against_target(logit, highest, others):
    """Of rows: the target's exponential, all of them, the log of that, all below `highest`; and the loss.

    With what `highest`, in powers of two, was rounded by: much where all logits have an offset.
    """
    distance = tl.fma(logit, LOG2E, -highest)
    chosen = tl.exp2(distance)
    total = chosen + others
    log_total = tl.log(total)
    # where the target leads, log(total) would round off what the others add to 1
    loss = tl.where(distance > -4.0, log_of_one_plus(others / chosen), log_total - distance * LN2)
    return chosen, total, log_total, loss


@triton.jit
def product(a, b, PRECISION: tl.constexpr):
    """a b in float32; "exact" is for float16 by exponentials, which float16 itself cannot hold."""
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def forward_tile(
    tokens, target, highest, others, core, weight, bias, first, classes, features, softcap,
    HAS_BIAS: tl.constexpr, SOFTCAP: tl.constexpr, GRADIENT: tl.constexpr, EDGE: tl.constexpr,
    PRECISION: tl.constexpr, FACTOR: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    EVEN: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Take in COLUMNS classes from `first` on: the highest logit (in powers of two), the sum, the core.

    FIXED leaves `highest` as it is, whatever is found.
    """
    column = first + tl.arange(0, COLUMNS)
    feature = tl.arange(0, WIDTH)
    places = weight + column.to(tl.int64)[:, None] * features + feature[None, :]
    if EVEN and not EDGE:
        tile = tl.load(places)
    else:
        tile = tl.load(places, mask=(column[:, None] < classes) & (feature[None, :] < features), other=0.0)
    logits = product(tokens, tl.trans(tile), PRECISION)
    if HAS_BIAS:
        logits += tl.load(bias + column, mask=column < classes, other=0.0).to(tl.float32)[None, :]
    if SOFTCAP:
        logits = capped(logits, softcap)
    if EDGE:
        logits = tl.where(column[None, :] < classes, logits, float("-inf"))
    if FIXED:
        higher = highest
    else:
        higher = tl.maximum(highest, tl.max(logits, axis=1) * LOG2E)
        rescale = tl.exp2(highest - higher)
        others = others * rescale
        if GRADIENT:
            core = core * rescale[:, None]
    exponentials = tl.exp2(tl.fma(logits, LOG2E, -higher[:, None]))
    exponentials = tl.where(column[None, :] == target[:, None], 0.0, exponentials)
    others += tl.sum(exponentials, axis=1)
    if GRADIENT:
        if SOFTCAP:
            slope = logits / softcap
            exponentials = tl.where(exponentials == 0.0, 0.0, exponentials * (1.0 - slope * slope))
        if FACTOR == "wide":
            core += tl.dot(exponentials, tile.to(tl.float32), input_precision="tf32")
        else:
            core = tl.dot(exponentials.to(tile.dtype), tile, core, input_precision=PRECISION)
    return higher, others, core


@triton.jit
def forward_loop(
    tokens, target, highest, weight, bias, classes, features, softcap,
    HAS_BIAS: tl.constexpr, SOFTCAP: tl.constexpr, GRADIENT: tl.constexpr, PRECISION: tl.constexpr,
    FACTOR: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr,
    STAGES: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Take in all classes."""
    others = tl.zeros([ROWS], tl.float32)
    core = tl.zeros([ROWS, WIDTH], tl.float32)
    whole = classes // COLUMNS * COLUMNS
    for first in tl.range(0, whole, COLUMNS, num_stages=STAGES):
        highest, others, core = forward_tile(
            tokens, target, highest, others, core, weight, bias, first, classes, features, softcap,
            HAS_BIAS, SOFTCAP, GRADIENT, False, PRECISION, FACTOR, COLUMNS, WIDTH, EVEN, FIXED,
        )  # fmt: skip
    if whole < classes:
        highest, others, core = forward_tile(
            tokens, target, highest, others, core, weight, bias, whole, classes, features, softcap,
            HAS_BIAS, SOFTCAP, GRADIENT, True, PRECISION, FACTOR, COLUMNS, WIDTH, EVEN, FIXED,
        )  # fmt: skip
    return highest, others, core


# Nothing is compiled in of numbers that change from batch to batch; of features it is, for loads of 16 bytes.
@triton.jit(do_not_specialize=["rows", "classes", "ignore_index"])
def forward_kernel(
    losses,  # (M,)
    known,  # (3, M): the highest logit in powers of two, what an exponential and the target's 1 are multiplied by
    made,  # (M, D): the core of h's gradient, without the target's own part
    parts,  # (2, programs): sums of losses and of weights
    h, weight, target, bias, class_weight,
    drift,  # (D,): the sum over classes of their spread times weight
    rows, classes, features, ignore_index, softcap, z_loss, keep, mass, drift_bias,
    HAS_BIAS: tl.constexpr, HAS_CLASS_WEIGHT: tl.constexpr, SMOOTH: tl.constexpr, SOFTCAP: tl.constexpr,
    GRADIENT: tl.constexpr, PRECISION: tl.constexpr, FACTOR: tl.constexpr, GUESS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row = program * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    feature = tl.arange(0, WIDTH)
    used = inside[:, None] & (feature[None, :] < features)
    place = row.to(tl.int64)[:, None] * features + feature[None, :]
    tokens = tl.load(h + place, mask=used, other=0.0)
    wanted = tl.load(target + row, mask=inside, other=ignore_index).to(tl.int64)
    counted = wanted != ignore_index
    valid = (wanted >= 0) & (wanted < classes)
    picked = tl.where(valid, wanted, 0).to(tl.int32)
    # The target's logit, and the smoothed one, before the loop: after it their tiles would be held beside the core.
    own = tl.load(weight + picked.to(tl.int64)[:, None] * features + feature[None, :], mask=used, other=0.0)
    wide = tokens.to(tl.float32)
    logit = tl.sum(wide * own.to(tl.float32), axis=1)
    if HAS_BIAS:
        logit += tl.load(bias + picked).to(tl.float32)
    if SOFTCAP:
        logit = capped(logit, softcap)
    if SMOOTH:
        drifts = tl.load(drift + feature, mask=feature < features, other=0.0)
        mean_logit = tl.sum(wide * drifts[None, :], axis=1) + drift_bias
    lowest = tl.full([ROWS], LOWEST, tl.float32)
    if GUESS:
        # The target's logit in place of the highest: nobody has to look for that then, or scale what there is when a
        # higher one comes. Where the others' sum has left float32's range, that was no good, and all is done again.
        highest, others, core = forward_loop(
            tokens, picked, logit * LOG2E, weight, bias, classes, features, softcap, HAS_BIAS, SOFTCAP, GRADIENT,
            PRECISION, FACTOR, ROWS, COLUMNS, WIDTH, EVEN, STAGES, True,
        )  # fmt: skip
        # a NaN is not below either
        if tl.sum(tl.where((others < MOST) | (row >= rows), 0, 1)) > 0:
            highest, others, core = forward_loop(
                tokens, picked, lowest, weight, bias, classes, features, softcap, HAS_BIAS, SOFTCAP, GRADIENT,
                PRECISION, FACTOR, ROWS, COLUMNS, WIDTH, EVEN, STAGES, False,
            )  # fmt: skip
    else:
        highest, others, core = forward_loop(
            tokens, picked, lowest, weight, bias, classes, features, softcap, HAS_BIAS, SOFTCAP, GRADIENT,
            PRECISION, FACTOR, ROWS, COLUMNS, WIDTH, EVEN, STAGES, False,
        )  # fmt: skip

    # the same logit as in the loop but for rounding
    chosen, total, log_total, loss = against_target(logit, highest, others)
    factor = tl.full([ROWS], 1.0, tl.float32)
    if HAS_CLASS_WEIGHT:
        factor = tl.load(class_weight + picked).to(tl.float32)
    share = factor * keep
    loss *= share
    lse = highest * LN2 + log_total
    coefficient = share + 2.0 * z_loss * lse + mass
    if SMOOTH:
        loss += mass * lse - mean_logit
    loss += z_loss * lse * lse
    broken = tl.where(valid, 1.0, float("nan"))
    loss = tl.where(counted, loss * broken, 0.0)
    factor = tl.where(counted, factor * broken, 0.0)
    tl.store(losses + row, loss, mask=inside)
    tl.store(parts + program, tl.sum(loss))
    tl.store(parts + tl.num_programs(0) + program, tl.sum(factor))
    if GRADIENT:
        scale = coefficient / total
        at_target = (chosen * (coefficient - share) - share * others) / total
        if SOFTCAP:
            slope = logit / softcap
            at_target *= 1.0 - slope * slope
        scale = tl.where(counted, scale * broken, 0.0)
        at_target = tl.where(counted, at_target * broken, 0.0)
        tl.store(made + place, tl.where(counted[:, None], core * scale[:, None], 0.0), mask=used)
        tl.store(known + row, highest, mask=inside)
        tl.store(known + rows + row, scale, mask=inside)
        tl.store(known + 2 * rows + row, at_target, mask=inside)


@triton.jit(do_not_specialize=["count"])
def finish_kernel(loss, scale, parts, count, MEAN: tl.constexpr, BLOCK: tl.constexpr):
    """Add up the programs' losses and weights, in one program and so in one order."""
    lane = tl.arange(0, BLOCK)
    losses = tl.zeros([BLOCK], tl.float32)
    weights = tl.zeros([BLOCK], tl.float32)
    for first in range(0, count, BLOCK):
        inside = first + lane < count
        losses += tl.load(parts + first + lane, mask=inside, other=0.0)
        weights += tl.load(parts + count + first + lane, mask=inside, other=0.0)
    total = tl.sum(losses)
    weight = tl.sum(weights)
    if MEAN:
        # 0 / 0 where all is ignored, as F.cross_entropy has it
        tl.store(loss, total / weight)
        tl.store(scale, tl.where(weight == 0.0, 0.0, 1.0 / weight))
    else:
        tl.store(loss, total)
        tl.store(scale, 1.0)


@triton.jit(do_not_specialize=["grad_step", "rows", "classes", "split_rows"])
def weight_kernel(
    partial,  # (splits, V, D): sums over a split's rows
    partial_bias,  # (splits, V)
    h, weight, target, bias, known, grad, grad_step, mean, rows, classes, features, softcap, split_rows,
    HAS_BIAS: tl.constexpr, BIAS_GRADIENT: tl.constexpr, SOFTCAP: tl.constexpr,
    PRECISION: tl.constexpr, FACTOR: tl.constexpr, UPRIGHT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The weight's gradient for COLUMNS classes over the rows of a split.

    Logits are transposed, as the gradient's product takes them, or UPRIGHT and turned for it: then a thread needs fewer
    rows' numbers, and the gradient goes through shared memory.
    """
    split = tl.program_id(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    exists = column < classes
    feature = tl.arange(0, WIDTH)
    place = column.to(tl.int64)[:, None] * features + feature[None, :]
    tile = tl.load(weight + place, mask=exists[:, None] & (feature[None, :] < features), other=0.0)
    if HAS_BIAS:
        shift = tl.load(bias + column, mask=exists, other=0.0).to(tl.float32)
    each = tl.load(mean)
    sums = tl.zeros([COLUMNS, WIDTH], tl.float32)
    bias_sums = tl.zeros([COLUMNS], tl.float32)
    start = split * split_rows
    for first in tl.range(start, tl.minimum(start + split_rows, rows), ROWS, num_stages=STAGES):
        row = first + tl.arange(0, ROWS)
        inside = row < rows
        tokens = tl.load(
            h + row.to(tl.int64)[:, None] * features + feature[None, :],
            mask=inside[:, None] & (feature[None, :] < features),
            other=0.0,
        )
        wanted = tl.load(target + row, mask=inside, other=-1).to(tl.int32)
        # a row that is none has no exponentials, however large the bias
        highest = tl.load(known + row, mask=inside, other=float("inf"))
        upstream = tl.load(grad + row * grad_step, mask=inside, other=0.0) * each
        scale = tl.load(known + rows + row, mask=inside, other=0.0) * upstream
        at_target = tl.load(known + 2 * rows + row, mask=inside, other=0.0) * upstream
        if UPRIGHT:
            logits = product(tokens, tl.trans(tile), PRECISION)
            classes_of, rows_of = column[None, :], wanted[:, None]
            highest, scale, at_target = highest[:, None], scale[:, None], at_target[:, None]
        else:
            logits = product(tile, tl.trans(tokens), PRECISION)
            classes_of, rows_of = column[:, None], wanted[None, :]
            highest, scale, at_target = highest[None, :], scale[None, :], at_target[None, :]
        if HAS_BIAS:
            logits += shift[None, :] if UPRIGHT else shift[:, None]
        if SOFTCAP:
            logits = capped(logits, softcap)
        gradient = tl.exp2(tl.fma(logits, LOG2E, -highest)) * scale
        if SOFTCAP:
            slope = logits / softcap
            gradient *= 1.0 - slope * slope
        gradient = tl.where(classes_of == rows_of, at_target, gradient)
        if BIAS_GRADIENT:
            bias_sums += tl.sum(gradient, axis=0 if UPRIGHT else 1)
        if FACTOR == "wide":
            gradient = tl.trans(gradient) if UPRIGHT else gradient
            sums += tl.dot(gradient, tokens.to(tl.float32), input_precision="tf32")
        else:
            factor = gradient.to(tokens.dtype)
            factor = tl.trans(factor) if UPRIGHT else factor
            sums = tl.dot(factor, tokens, sums, input_precision=PRECISION)
    kept = split.to(tl.int64) * classes * features
    tl.store(partial + kept + place, sums, mask=exists[:, None] & (feature[None, :] < features))
    if BIAS_GRADIENT:
        tl.store(partial_bias + split.to(tl.int64) * classes + column, bias_sums, mask=exists)


@triton.jit(
    do_not_specialize=["grad_step", "weights_size", "rows", "classes", "ignore_index", "splits", "programs"]
)  # fmt: skip
def gather_kernel(
    dweight, dh, partial, made, spread, pull, drift, weight, target, known, grad, grad_step, mean,
    weights_size, rows, classes, features, ignore_index, splits, programs,
    SMOOTH: tl.constexpr, WEIGHT: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Add up the splits' sums, PARTS at once in one order, and finish h's gradient: both rounded once."""
    program = tl.program_id(0)
    if program < programs:
        if WEIGHT:
            place = program.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            inside = place < weights_size
            sums = tl.zeros([PARTS, BLOCK], tl.float32)
            for first in range(0, splits, PARTS):
                split = first + tl.arange(0, PARTS)
                there = (split < splits)[:, None] & inside[None, :]
                sums += tl.load(partial + split[:, None] * weights_size + place[None, :], mask=there, other=0.0)
            total = tl.sum(sums, axis=0)
            if SMOOTH:
                total -= tl.load(spread + place // features, mask=inside, other=0.0) * tl.load(
                    pull + place % features, mask=inside, other=0.0
                )
            tl.store(dweight + place, total.to(dweight.dtype.element_ty), mask=inside)
    else:
        if TOKENS:
            row = (program - programs) * ROWS + tl.arange(0, ROWS)
            exists = row < rows
            feature = tl.arange(0, WIDTH)
            used = exists[:, None] & (feature[None, :] < features)
            here = row.to(tl.int64)[:, None] * features + feature[None, :]
            wanted = tl.load(target + row, mask=exists, other=0).to(tl.int64)
            picked = tl.where((wanted >= 0) & (wanted < classes), wanted, 0)
            at_target = tl.load(known + 2 * rows + row, mask=exists, other=0.0)
            own = tl.load(weight + picked[:, None] * features + feature[None, :], mask=used, other=0.0)
            gradient = tl.load(made + here, mask=used, other=0.0) + own.to(tl.float32) * at_target[:, None]
            if SMOOTH:
                drifts = tl.load(drift + feature, mask=feature < features, other=0.0)
                gradient -= tl.where((wanted == ignore_index)[:, None], 0.0, drifts[None, :])
            upstream = tl.load(grad + row * grad_step, mask=exists, other=0.0) * tl.load(mean)
            gradient *= upstream[:, None]
            tl.store(dh + here, gradient.to(dh.dtype.element_ty), mask=used)
