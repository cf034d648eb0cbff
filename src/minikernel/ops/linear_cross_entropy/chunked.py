"""The loss in torch, some rows at a time: any device, dtype and option, and memory for one chunk of logits.

A chunk's logits are made, turned into their gradient in place, multiplied into the two gradients and forgotten. So the
gradient is made in the forward pass, with three products and no second reading of h. Only where a factor for each token
is still to come (reduction="none"), or nobody said that a gradient would be asked for, are they made again.

What is accumulated, the weight's gradient over all chunks, is float32, and so the result does not depend on how many
there are but for float32's rounding.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from minikernel.ops.linear_cross_entropy.options import Options, Wanted, spread_of, sum_dtype

# Of float32 logits at once. Fewer rows at a time cost more: the weight's gradient is gone through once a chunk.
CPU_BYTES, GPU_BYTES = 16 << 20, 128 << 20
LEAST_ROWS, PARTS = 16, 16  # rows of a chunk at least; chunks that a batch is cut into at least, for the memory's sake


class Result(NamedTuple):
    """A loss of each token, what the mean divides by, and the gradients that were made, unscaled by it."""

    losses: torch.Tensor  # (M,)
    weights: torch.Tensor  # (M,): 0 where ignored, else 1 or the class's
    dh: torch.Tensor | None
    dweight: torch.Tensor | None
    dbias: torch.Tensor | None


def rows_of_a_chunk(rows: int, classes: int, itemsize: int, cpu: bool) -> int:
    """How many rows have their logits in memory at once."""
    fit = (CPU_BYTES if cpu else GPU_BYTES) // (itemsize * classes)
    # on a CPU small batches are cut too: a chunk stays in the cache, and memory is what is saved
    most = max(-(-rows // PARTS), LEAST_ROWS) if cpu else rows
    return max(min(fit, most), 1)


def run(
    h: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    class_weight: torch.Tensor | None,
    options: Options,
    wanted: Wanted = Wanted(),  # noqa: B008
    upstream: torch.Tensor | None = None,
) -> Result:
    """Losses and, as `wanted`, gradients of their sum weighted by `upstream`.

    Args:
        h: (M, D).
        weight: (V, D) of the dtype of h.
        target: (M,).
        bias: (V,) or None.
        class_weight: (V,) or None.
        options: as given; the reduction is the caller's.
        wanted: gradients to make.
        upstream: (M,) factor of each token's loss, or None for 1.

    Returns:
        Losses in float32 (float64 of float64), gradients likewise.
    """
    dtype = sum_dtype(h.dtype)
    rows, classes = h.shape[0], weight.shape[0]
    # Sixteen bits are multiplied exactly in float32, and their sums are not rounded to sixteen.
    wide = weight.to(dtype)
    wide_bias = None if bias is None else bias.to(dtype)
    given = None if class_weight is None else class_weight.to(dtype)
    spread = spread_of(options, weight, class_weight)
    losses = torch.empty(rows, dtype=dtype, device=h.device)
    weights = torch.empty(rows, dtype=dtype, device=h.device)
    dh = torch.empty(h.shape, dtype=dtype, device=h.device) if wanted.h else None
    dweight = torch.zeros(weight.shape, dtype=dtype, device=h.device) if wanted.weight else None
    dbias = torch.zeros(classes, dtype=dtype, device=h.device) if wanted.bias else None
    step = rows_of_a_chunk(rows, classes, dtype.itemsize, h.device.type == "cpu")
    buffer = torch.empty(min(step, rows), classes, dtype=dtype, device=h.device)
    for part in chunks(rows, step):
        factor = None if upstream is None else upstream[part]
        chunk = h[part].to(dtype)
        logits = torch.mm(chunk, wide.T, out=buffer[: chunk.shape[0]])
        if wide_bias is not None:
            logits += wide_bias
        losses[part], weights[part] = cross_entropy_(logits, target[part], given, spread, options, any(wanted), factor)
        if dh is not None:
            torch.mm(logits, wide, out=dh[part])
        if dweight is not None:
            dweight.addmm_(logits.T, chunk)
        if dbias is not None:
            dbias += logits.sum(0)
    return Result(losses, weights, dh, dweight, dbias)


def chunks(rows: int, step: int) -> Iterator[slice]:
    """Slices of `step` rows; the last may have fewer."""
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def cross_entropy_(
    logits: torch.Tensor,
    target: torch.Tensor,
    class_weight: torch.Tensor | None,
    spread: torch.Tensor | None,
    options: Options,
    gradient: bool,
    factor: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's loss and weight; `logits` become their gradient, times `factor`, where one is asked for.

    Written over in either case. A target that is no class makes its row NaN: to refuse it would make a GPU wait.
    """
    target = target[:, None]
    ignored = target == options.ignore_index
    inside = (target >= 0) & (target < logits.shape[1])
    picked = torch.where(inside & ~ignored, target, 0).long()
    steep = None
    if options.softcap:
        logits.div_(options.softcap).tanh_()
        # the cap's own derivative, which is asked for after the logits have gone
        steep = 1 - logits * logits if gradient else None
        logits.mul_(options.softcap)
    shift = logits.amax(1, keepdim=True)
    # Before anything is added up: with a large common offset a sum of it and a small log would lose the log.
    logits.sub_(shift)
    distance = logits.gather(1, picked)  # of the target's logit below the largest: at most 0
    smooth = None if spread is None else torch.mv(logits, spread)
    exponentials = logits.exp_()
    chosen = exponentials.gather(1, picked)
    exponentials.scatter_(1, picked, 0.0)
    others = exponentials.sum(1, keepdim=True)
    total = chosen + others
    log_total = total.log()
    # where the target leads, log(total) would round off what the others add to 1
    nll = torch.where(distance > -1, torch.log1p(others / chosen), log_total - distance)
    weight = torch.ones_like(nll) if class_weight is None else class_weight[picked]
    share = weight * (1 - options.label_smoothing)
    loss = share * nll
    lse = shift + log_total
    coefficient = share
    if spread is not None and smooth is not None:
        mass = spread.sum()
        # the sum over classes of spread (lse - z), in distances from the largest
        loss = loss + (mass * log_total - smooth[:, None])
        coefficient = coefficient + mass
    if options.z_loss:
        loss = loss + options.z_loss * lse * lse
        coefficient = coefficient + 2 * options.z_loss * lse
    loss = torch.where(inside, loss, torch.nan).masked_fill_(ignored, 0)
    if gradient:
        # one factor for a row: 0 where ignored, NaN for a wrong class
        each = torch.ones_like(loss) if factor is None else factor.to(loss.dtype)[:, None]
        each = torch.where(inside, each, torch.nan).masked_fill_(ignored, 0)
        # p - 1 at the target cancels in a confident row; the others' share does not
        at_target = (chosen * (coefficient - share) - share * others) / total
        exponentials.mul_(coefficient / total * each).scatter_(1, picked, at_target * each)
        if spread is not None:
            exponentials.addcmul_(each, spread, value=-1)
        if steep is not None:
            exponentials.mul_(steep)
        # 0 times what an ignored row may hold of infinity is no 0
        if may_be(ignored):
            exponentials.masked_fill_(ignored, 0)
    return loss[:, 0], weight.masked_fill(ignored, 0)[:, 0]


def may_be(flags: torch.Tensor) -> bool:
    """Whether any flag is set, or could be: for a GPU's answer nobody waits."""
    return flags.device.type != "cpu" or bool(flags.any())
