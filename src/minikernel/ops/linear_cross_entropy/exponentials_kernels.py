"""The Triton kernels of "exponentials": a chunk's exponentials are written once, rounded once, and never read to sum.

A tile's logits are float32 on the chip. What is written of them are their exponentials below the target's logit, which
is known before: so that no second reading has to find a highest one. Where the target's lies too far below the others
for that, the second of two kernels makes its block of rows again, each tile below its own highest logit; elsewhere it
returns at once. The target's own exponential is 0 in all of this, and its part is added in float32.
"""

import triton
import triton.language as tl

from minikernel.ops.linear_cross_entropy.recomputed_kernels import LN2, LOG2E, LOWEST, MOST, against_target


@triton.jit(do_not_specialize=["rows", "classes", "ignore_index"])
def reference_kernel(
    known,  # (3, M): the target's logit; later what a row's exponentials, and its h at the target, are multiplied by
    h, weight, target, bias, rows, classes, features, ignore_index,
    HAS_BIAS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The logit of each row's target, which the others' are held against."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    wanted = tl.load(target + row, mask=inside, other=ignore_index).to(tl.int64)
    inside = inside & (wanted != ignore_index)
    picked = tl.where((wanted >= 0) & (wanted < classes), wanted, 0)
    logit = tl.zeros([ROWS], tl.float32)
    for first in range(0, features, WIDTH):
        feature = first + tl.arange(0, WIDTH)
        used = inside[:, None] & (feature[None, :] < features)
        ours = tl.load(h + row.to(tl.int64)[:, None] * features + feature[None, :], mask=used, other=0.0)
        theirs = tl.load(weight + picked[:, None] * features + feature[None, :], mask=used, other=0.0)
        logit += tl.sum(ours.to(tl.float32) * theirs.to(tl.float32), axis=1)
    if HAS_BIAS:
        logit += tl.load(bias + picked, mask=inside, other=0.0).to(tl.float32)
    # below that, all exponentials of an ignored row are 0
    tl.store(known + row, tl.where(inside, logit, 1e37), mask=row < rows)


@triton.jit
def one_tile(
    exponentials, sums, tops, known, h, weight, target, bias, block, first, rows, classes, features, stride, pitch,
    ignore_index,
    HAS_BIAS: tl.constexpr, WRITTEN: tl.constexpr, AGAIN: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The exponentials of ROWS rows and of COLUMNS classes from `first` on, and their sums."""
    row = block * ROWS + tl.arange(0, ROWS)
    column = first + tl.arange(0, COLUMNS)
    wanted = tl.load(target + row, mask=row < rows, other=ignore_index).to(tl.int64)
    # an ignored row may hold infinity
    used = (row < rows) & (wanted != ignore_index)
    depth = tl.arange(0, DEPTH)
    ours = h + row.to(tl.int64)[:, None] * features + depth[None, :]
    theirs = weight + column.to(tl.int64)[None, :] * features + depth[:, None]
    logits = tl.zeros([ROWS, COLUMNS], tl.float32)
    for at in tl.range(0, features, DEPTH, num_stages=STAGES):
        if EVEN:
            a = tl.load(ours + at, mask=used[:, None], other=0.0)
            b = tl.load(theirs + at)
        else:
            a = tl.load(ours + at, mask=used[:, None] & (at + depth[None, :] < features), other=0.0)
            b = tl.load(theirs + at, mask=at + depth[:, None] < features, other=0.0)
        logits = tl.dot(a, b, logits, input_precision=PRECISION)
    if HAS_BIAS:
        logits += tl.load(bias + column, mask=column < classes, other=0.0).to(tl.float32)[None, :]
    # a wrong class is taken for the first, and its row becomes NaN
    picked = tl.where((wanted >= 0) & (wanted < classes), wanted, 0).to(tl.int32)
    place = tl.cast(first // COLUMNS, tl.int64) * pitch + row
    if AGAIN:
        left_out = (column[None, :] == picked[:, None]) | (column >= classes)[None, :]
        logits = tl.where(left_out, float("-inf"), logits)
        highest = tl.maximum(tl.max(logits, axis=1) * LOG2E, LOWEST)
        found = tl.exp2(tl.fma(logits, LOG2E, -highest[:, None]))
        tl.store(tops + place, highest, mask=row < rows)
    else:
        reference = tl.load(known + row, mask=row < rows, other=0.0) * LOG2E
        found = tl.exp2(tl.fma(logits, LOG2E, -reference[:, None]))
        found = tl.where(column[None, :] == picked[:, None], 0.0, found)
        if first + COLUMNS > classes:
            found = tl.where((column < classes)[None, :], found, 0.0)
    tl.store(sums + place, tl.sum(found, axis=1), mask=row < rows)
    if WRITTEN:
        places = exponentials + row.to(tl.int64)[:, None] * stride + column[None, :]
        tl.store(places, found.to(exponentials.dtype.element_ty), mask=(row < rows)[:, None])


@triton.jit(do_not_specialize=["rows", "classes", "pitch", "ignore_index"])
def exponentials_kernel(
    exponentials,  # (M, V) with rows `stride` apart, V filled up to whole tiles
    sums,  # (tiles of a row, M): of each tile's exponentials
    known, h,
    weight,  # (V, D), V filled up
    target, bias, rows, classes, features, stride, pitch, ignore_index,
    HAS_BIAS: tl.constexpr, WRITTEN: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # all blocks of rows at one tile of the weight, then at the next: the weight comes from memory once
    blocks = tl.cdiv(rows, ROWS)
    program = tl.program_id(0)
    one_tile(
        exponentials, sums, sums, known, h, weight, target, bias, program % blocks, program // blocks * COLUMNS, rows,
        classes, features, stride, pitch, ignore_index,
        HAS_BIAS, WRITTEN, False, PRECISION, ROWS, COLUMNS, DEPTH, EVEN, STAGES,
    )  # fmt: skip


@triton.jit(do_not_specialize=["rows", "classes", "pitch", "ignore_index"])
def again_kernel(
    exponentials, sums,
    tops,  # (tiles of a row, M): the highest logit of each tile's row, in powers of two
    far,  # (M,): 1 where the target's logit is too far below
    known, h, weight, target, bias, rows, classes, features, stride, pitch, ignore_index,
    HAS_BIAS: tl.constexpr, WRITTEN: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """As `exponentials_kernel` for blocks with a row that is `far`, below each tile's own highest logit."""
    block = tl.program_id(0)
    row = block * ROWS + tl.arange(0, ROWS)
    if tl.max(tl.load(far + row, mask=row < rows, other=0.0)) > 0.0:
        for first in range(tl.program_id(1) * COLUMNS, classes, tl.num_programs(1) * COLUMNS):
            one_tile(
                exponentials, sums, tops, known, h, weight, target, bias, block, first, rows, classes, features,
                stride, pitch, ignore_index,
                HAS_BIAS, WRITTEN, True, PRECISION, ROWS, COLUMNS, DEPTH, EVEN, STAGES,
            )  # fmt: skip


@triton.jit(do_not_specialize=["upstream_step", "rows", "classes", "tiles", "pitch", "length", "ignore_index"])
def sums_kernel(
    losses,  # (M,)
    weights,  # (M,)
    far, known, exponentials, sums, tops, target, class_weight, upstream, upstream_step, rows, classes, tiles, stride,
    pitch, length, ignore_index, z_loss,
    HAS_CLASS_WEIGHT: tl.constexpr, SCALED: tl.constexpr, WRITTEN: tl.constexpr, AGAIN: tl.constexpr,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, TILES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Each row's loss, and what its exponentials and its target's part are multiplied by, out of its tiles' sums.

    AGAIN looks only at blocks of BLOCK rows with one that is `far`, and brings their tiles below one logit.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    needed = True
    if AGAIN:
        fellows = tl.program_id(0) * ROWS // BLOCK * BLOCK + tl.arange(0, BLOCK)
        needed = tl.max(tl.load(far + fellows, mask=fellows < rows, other=0.0)) > 0.0
    if needed:
        logit = tl.load(known + row, mask=inside, other=0.0)
        highest = logit * LOG2E
        tile = tl.arange(0, TILES)
        if AGAIN:
            for first in range(0, tiles, TILES):
                at = (first + tile)[:, None].to(tl.int64) * pitch + row[None, :]
                used = (first + tile < tiles)[:, None] & inside[None, :]
                highest = tl.maximum(highest, tl.max(tl.load(tops + at, mask=used, other=LOWEST), axis=0))
        others = tl.zeros([ROWS], tl.float32)
        for first in range(0, tiles, TILES):
            at = (first + tile)[:, None].to(tl.int64) * pitch + row[None, :]
            used = (first + tile < tiles)[:, None] & inside[None, :]
            part = tl.load(sums + at, mask=used, other=0.0)
            if AGAIN:
                part *= tl.exp2(tl.load(tops + at, mask=used, other=LOWEST) - highest[None, :])
            others += tl.sum(part, axis=0)
        wanted = tl.load(target + row, mask=inside, other=ignore_index).to(tl.int64)
        counted = inside & (wanted != ignore_index)
        valid = (wanted >= 0) & (wanted < classes)
        chosen, total, log_total, loss = against_target(logit, highest, others)
        factor = tl.full([ROWS], 1.0, tl.float32)
        if HAS_CLASS_WEIGHT:
            factor = tl.load(class_weight + tl.where(valid, wanted, 0), mask=inside, other=0.0).to(tl.float32)
        lse = highest * LN2 + log_total
        coefficient = factor + 2.0 * z_loss * lse
        loss = loss * factor + z_loss * lse * lse
        broken = tl.where(valid, 1.0, float("nan"))
        tl.store(losses + row, tl.where(counted, loss * broken, 0.0), mask=inside)
        tl.store(weights + row, tl.where(counted, factor * broken, 0.0), mask=inside)
        if not AGAIN:
            # not below, or NaN
            tl.store(far + row, tl.where(counted & ~(others < MOST), 1.0, 0.0), mask=inside)
        if WRITTEN:
            up = broken
            if SCALED:
                up *= tl.load(upstream + row.to(tl.int64) * upstream_step, mask=inside, other=0.0).to(tl.float32)
            at_target = (chosen * (coefficient - factor) - factor * others) / total * up
            tl.store(known + length + row, tl.where(counted, coefficient / total * up, 0.0), mask=inside)
            tl.store(known + 2 * length + row, tl.where(counted, at_target, 0.0), mask=inside)
            if AGAIN:
                column = tl.arange(0, COLUMNS)
                for number in range(0, tiles):
                    top = tl.load(tops + tl.cast(number, tl.int64) * pitch + row, mask=inside, other=LOWEST)
                    places = exponentials + row.to(tl.int64)[:, None] * stride + (number * COLUMNS + column)[None, :]
                    values = tl.load(places, mask=inside[:, None], other=0.0).to(tl.float32)
                    values *= tl.exp2(top - highest)[:, None]
                    tl.store(places, values.to(exponentials.dtype.element_ty), mask=inside[:, None])


@triton.jit(do_not_specialize=["rows", "classes", "length"])
def tokens_kernel(
    dh,  # (M, D)
    scaled,  # (M, D): h as the weight's gradient wants it
    core,  # (M, D): exponentials times the weight
    known, h, weight, target, rows, classes, features, length,
    TOKENS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """h's gradient, with the target's own part, and h times what its row's exponentials are multiplied by."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    feature = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = row < rows
    used = inside[:, None] & (feature[None, :] < features)
    place = row.to(tl.int64)[:, None] * features + feature[None, :]
    scale = tl.load(known + length + row, mask=inside, other=0.0)
    # 0 times what an ignored row may hold of infinity is no 0
    values = tl.load(h + place, mask=used & (scale != 0.0)[:, None], other=0.0).to(tl.float32) * scale[:, None]
    tl.store(scaled + place, values.to(scaled.dtype.element_ty), mask=used)
    if TOKENS:
        wanted = tl.load(target + row, mask=inside, other=0).to(tl.int64)
        picked = tl.where((wanted >= 0) & (wanted < classes), wanted, 0)
        at_target = tl.load(known + 2 * length + row, mask=inside, other=0.0)
        own = tl.load(weight + picked[:, None] * features + feature[None, :], mask=used, other=0.0).to(tl.float32)
        gradient = tl.load(core + place, mask=used, other=0.0) * scale[:, None]
        gradient = tl.fma(own, at_target[:, None], tl.where((scale == 0.0)[:, None], 0.0, gradient))
        tl.store(dh + place, gradient.to(dh.dtype.element_ty), mask=used)


@triton.jit(do_not_specialize=["rows", "classes"])
def targets_kernel(
    dweight,  # (V, D), float32
    dbias,  # (V,), float32
    known,  # the third row of it, for all tokens
    h,
    order,  # (M,): tokens, sorted by their classes
    ordered,  # (M,): those classes
    rows, classes, features,
    BIAS_GRADIENT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Add each token's h, times its target's own part, to the row of its target, in the order of the tokens."""
    place = tl.program_id(0)
    picked = tl.load(ordered + place).to(tl.int64)
    before = tl.load(ordered + place - 1, mask=place > 0, other=-1).to(tl.int64)
    # the first token of a class has all of it added up
    if ((picked != before) | (place == 0)) & (picked >= 0) & (picked < classes):
        feature = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
        wide = feature < features
        places = dweight + picked * features + feature
        total = tl.load(places, mask=wide, other=0.0)
        summed = 0.0
        first = place
        more = True
        while more:
            at = first + tl.arange(0, ROWS)
            same = (at < rows) & (tl.load(ordered + at, mask=at < rows, other=-1) == picked)
            token = tl.load(order + at, mask=same, other=0)
            part = tl.load(known + token, mask=same, other=0.0)
            used = (same & (part != 0.0))[:, None] & wide[None, :]
            ours = tl.load(h + token[:, None] * features + feature[None, :], mask=used, other=0.0).to(tl.float32)
            total += tl.sum(ours * part[:, None], axis=0)
            summed += tl.sum(part)
            first += ROWS
            more = tl.sum(same.to(tl.int32)) == ROWS
        tl.store(places, total, mask=wide)
        if BIAS_GRADIENT:
            first_part = tl.program_id(1) == 0
            added = tl.load(dbias + picked, mask=first_part, other=0.0) + summed
            tl.store(dbias + picked, added, mask=first_part)
