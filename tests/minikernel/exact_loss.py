"""The loss in float64 with all its logits, by torch's own functions; and how far two sets of tensors are apart."""

import torch
import torch.nn.functional as F


def exact(h, weight, target, upstream=None, *, bias=None, class_weight=None, reduction="mean", ignore_index=-100,
          label_smoothing=0.0, z_loss=0.0, softcap=None, by_logits=False):  # fmt: skip
    """(loss, dh, dweight[, dbias][, by_logits: dlogits]) in float64."""
    factors = [t.detach().cpu().double().requires_grad_() for t in (h, weight, bias) if t is not None]
    logits = products = F.linear(*factors)
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    target = target.cpu().long()
    given = None if class_weight is None else class_weight.cpu().double()
    loss = F.cross_entropy(
        logits, target, given, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )
    if z_loss:
        kept = target != ignore_index
        squares = torch.where(kept, torch.logsumexp(logits, 1) ** 2, 0)
        count = kept.double() if given is None else torch.where(kept, given[target.clamp(min=0)], 0)
        added = {"none": squares, "sum": squares.sum(), "mean": squares.sum() / count.sum()}[reduction]
        loss = loss + z_loss * added
    upstream = torch.ones_like(loss) if upstream is None else upstream.cpu().double()
    return [loss.detach(), *torch.autograd.grad(loss, [*factors, *[products] * by_logits], upstream)]


def found(function, h, weight, target, upstream=None, *, bias=None, **more):
    """The same of a function of these arguments."""
    factors = [None if t is None else t.detach().clone().requires_grad_() for t in (h, weight, bias)]
    loss = function(factors[0], factors[1], target, bias=factors[2], **more)
    upstream = torch.ones_like(loss) if upstream is None else upstream.to(loss)
    return [loss.detach(), *torch.autograd.grad(loss, [t for t in factors if t is not None], upstream)]


def errors(results, expected):
    """Each relative error in the norm; infinite of NaN, which `max` would pass over, and 0 where both are 0."""
    found = [
        float((a.cpu().double() - b).norm() / b.norm().clamp(min=1e-300))
        for a, b in zip(results, expected, strict=True)
    ]
    return [error if error == error else float("inf") for error in found]
