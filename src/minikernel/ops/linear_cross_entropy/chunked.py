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

from minikernel.ops.linear_cross_entropy.options import Inputs, Options, Wanted, spread_of, sum_dtype

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
    inputs: Inputs,
    options: Options,
    wanted: Wanted = Wanted(),  # noqa: B008
    upstream: torch.Tensor | None = None,
) -> Result:
    """Losses and, as `wanted`, gradients of their sum weighted by `upstream`.

    Args:
        inputs: h and weight of one dtype.
        options: as given; the reduction is the caller's.
        wanted: gradients to make.
        upstream: (M,) factor of each token's loss, or None for 1.

    Returns:
        Losses in float32 (float64 of float64), gradients likewise.
    """
    h, weight, target, bias, class_weight = inputs
    dtype = sum_dtype(h.dtype)
    rows, classes = h.shape[0], weight.shape[0]
    # Sixteen bits are multiplied exactly in float32, and their sums are not rounded to sixteen.
    wide = weight.to(dtype)
    wide_bias = None if bias is None else bias.to(dtype)
    given = None if class_weight is None else class_weight.to(dtype)
    spread = spread_of(options, weight, class_weight)
    known = known_of(target, given, classes, options, upstream, dtype)
    found = torch.empty(FOUND, rows, 1, dtype=dtype, device=h.device)
    dh = torch.empty(h.shape, dtype=dtype, device=h.device) if wanted.h else None
    dweight = torch.zeros(weight.shape, dtype=dtype, device=h.device) if wanted.weight else None
    dbias = torch.zeros(classes, dtype=dtype, device=h.device) if wanted.bias else None
    step = rows_of_a_chunk(rows, classes, dtype.itemsize, h.device.type == "cpu")
    buffer = torch.empty(min(step, rows), classes, dtype=dtype, device=h.device)
    for part in chunks(rows, step):
        chunk = h[part].to(dtype)
        logits = torch.mm(chunk, wide.T, out=buffer[: chunk.shape[0]])
        if wide_bias is not None:
            logits += wide_bias
        here, there = known.of(part), found[:, part]
        steep = sums_(logits, here.picked, spread, options.softcap, any(wanted), there)
        if any(wanted):
            gradient_(logits, here, spread, options.z_loss, steep, there)
        if dh is not None:
            torch.mm(logits, wide, out=dh[part])
        if dweight is not None:
            dweight.addmm_(logits.T, chunk)
        if dbias is not None:
            dbias += logits.sum(0)
    losses = losses_of(known, spread, options, found)
    return Result(losses[:, 0], known.weight.masked_fill(known.ignored, 0)[:, 0], dh, dweight, dbias)


def chunks(rows: int, step: int) -> Iterator[slice]:
    """Slices of `step` rows; the last may have fewer."""
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class Known(NamedTuple):
    """What is known of each row before its logits, (M, 1) each: made once, for on a CPU a call costs as much as a row.

    A target that is no class makes its row NaN: to refuse it would make a GPU wait.
    """

    picked: torch.Tensor  # its class; 0 where it has none
    ignored: torch.Tensor
    inside: torch.Tensor  # whether its target is a class
    weight: torch.Tensor  # 1 or the class's
    each: torch.Tensor  # what its gradient is multiplied by: 0 where ignored, NaN for a wrong class
    share: torch.Tensor  # of `each`, what the target itself gets

    def of(self, part: slice) -> "Known":
        """Of some rows."""
        return Known(*(one[part] for one in self))


def known_of(
    target: torch.Tensor,
    class_weight: torch.Tensor | None,
    classes: int,
    options: Options,
    upstream: torch.Tensor | None,
    dtype: torch.dtype,
) -> Known:
    """What follows from the targets alone."""
    target = target[:, None]
    ignored = target == options.ignore_index
    inside = (target >= 0) & (target < classes)
    picked = torch.where(inside & ~ignored, target, 0).long()
    ones = torch.ones(target.shape, dtype=dtype, device=target.device)
    weight = ones if class_weight is None else class_weight[picked]
    each = ones if upstream is None else upstream.to(dtype)[:, None]
    each = torch.where(inside, each, torch.nan).masked_fill_(ignored, 0)
    share = each * weight * (1 - options.label_smoothing)
    return Known(picked, ignored, inside, weight, each, share)


# What is found of a row: its largest logit, how far the target's lies below it (at most 0), the target's exponential,
# the sum of the others', and of the distances what smoothing weighs them by.
FOUND = 5


def sums_(
    logits: torch.Tensor,
    picked: torch.Tensor,
    spread: torch.Tensor | None,
    softcap: float,
    gradient: bool,
    found: torch.Tensor,
) -> torch.Tensor | None:
    """Logits become exponentials, 0 at the target; what is found of each row goes into `found`.

    Returns:
        The derivative of the softcap, which is asked for after the logits have gone; None without one.
    """
    shift, distance, chosen, others, smooth = found
    steep = None
    if softcap:
        logits.div_(softcap).tanh_()
        steep = 1 - logits * logits if gradient else None
        logits.mul_(softcap)
    torch.amax(logits, 1, keepdim=True, out=shift)
    # Before anything is added up: with a large common offset a sum of it and a small log would lose the log.
    logits.sub_(shift)
    torch.gather(logits, 1, picked, out=distance)
    if spread is not None:
        torch.mv(logits, spread, out=smooth[:, 0])
    logits.exp_()
    torch.gather(logits, 1, picked, out=chosen)
    logits.scatter_(1, picked, 0.0)
    torch.sum(logits, 1, keepdim=True, out=others)
    return steep


def gradient_(
    exponentials: torch.Tensor,
    known: Known,
    spread: torch.Tensor | None,
    z_loss: float,
    steep: torch.Tensor | None,
    found: torch.Tensor,
) -> None:
    """What `sums_` left of the logits becomes their gradient, times each row's factor."""
    shift, _, chosen, others, _ = found
    total = chosen + others
    # p - 1 at the target cancels in a confident row; the others' share does not
    at_target, coefficient = -known.share * others, known.share
    if spread is not None or z_loss:
        more = 0.0 if spread is None else spread.sum()
        if z_loss:
            more = more + 2 * z_loss * (shift + total.log())
        more = known.each * more
        at_target, coefficient = at_target + chosen * more, coefficient + more
    exponentials.mul_(coefficient / total).scatter_(1, known.picked, at_target / total)
    if spread is not None:
        exponentials.addcmul_(known.each, spread, value=-1)
    if steep is not None:
        exponentials.mul_(steep)
    # 0 times what an ignored row may hold of infinity is no 0
    if may_be(known.ignored):
        exponentials.masked_fill_(known.ignored, 0)


def losses_of(known: Known, spread: torch.Tensor | None, options: Options, found: torch.Tensor) -> torch.Tensor:
    """(M, 1) each row's loss, of what was found of it."""
    shift, distance, chosen, others, smooth = found
    log_total = (chosen + others).log()
    # where the target leads, log(total) would round off what the others add to 1
    nll = torch.where(distance > -1, torch.log1p(others / chosen), log_total - distance)
    loss = known.weight * (1 - options.label_smoothing) * nll
    if spread is not None:
        # the sum over classes of spread (lse - z), in distances from the largest
        loss = loss + (spread.sum() * log_total - smooth)
    if options.z_loss:
        loss = loss + options.z_loss * (shift + log_total).square()
    return torch.where(known.inside, loss, torch.nan).masked_fill_(known.ignored, 0)


def may_be(flags: torch.Tensor) -> bool:
    """Whether any flag is set, or could be: for a GPU's answer nobody waits."""
    return flags.device.type != "cpu" or bool(flags.any())
