"""The loss and its gradients in float64, and the error that a result in some dtype must be allowed.

The inputs are taken as the contender sees them, rounded already; what it adds itself is allowed:

- Products. Those of 16-bit numbers are exact in float32; float32's are made of three TF32 ones, which drop 2^-21 of
  each. A sum of n of them in float32 rounds n times what it holds, which is the sum itself or the random walk of its
  terms, q = sqrt(sum of squares): 3 sqrt(n) 2^-23 (q + |sum|). 2^-23 and not half of it, for tensor cores cut off; 3 of
  the random walk's standard deviations. So a logit is off by dz, with n = D. It is never rounded to the dtype: whoever
  keeps logits in 16 bits has an error that the dtype does not ask for, and large logits show it.
- Exponentials. A probability p = exp(z - lse) is off by p e, where e adds up dz, its mean under p, the rounding of
  z - lse and of lse, 8 ulps for exp and log, and sqrt(V) 2^-24 for the sum over V.
- The gradient of a logit, p - 1 at the target, is off by p e, and is rounded to the dtype to be multiplied: u each.
  Such roundings are independent: together RMS u sqrt(sum of (dz w)^2), 3 times that is allowed. They are the same in
  equal entries, so u of the target's term and of the sum of the others is allowed besides.
- A gradient is summed in float32, over V or over M, as a logit is over D, and rounded to the dtype once: 3 RMS u of it.

Independent parts are added in quadrature, each element has its own bound, and rows are judged one by one, by norms: a
token's row of dh, a word's row of dW. A gradient that lacks its small entries shows in the rows that have no other.
u is 2^-8 in bfloat16, 2^-11 in float16, 2^-24 in float32; RMS, 0.43, is the root mean square of a rounding over u, for
a mantissa whose logarithm is uniform.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

LAMBDA = 3.0  # standard deviations that are allowed
RMS = 0.43
SUM, ROUND = 2.0**-23, 2.0**-24  # of float32: a sum's step on a tensor core, and a rounding
EXP_ULPS = 8.0
TF32_PRODUCTS = 2.0**-21
UNIT = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
LEAST = {torch.float32: 0.0, torch.bfloat16: 0.0, torch.float16: 2.0**-25}  # half of the smallest number's step
LOGITS_AT_ONCE = 1 << 24


@dataclass
class Exact:
    """What is right, and by how much a result may miss it, element by element.

    Attributes:
        values, bounds: `loss`, `dh`, `dw` -> float64. The loss is a scalar, or one for each token.
    """

    values: dict[str, Tensor] = field(default_factory=dict)
    bounds: dict[str, Tensor] = field(default_factory=dict)


def exact(h: Tensor, weight: Tensor, target: Tensor, upstream: Tensor | None = None, **options: Any) -> Exact:
    """The loss of (M, D) and (V, D) in float64 and its gradients, with their bounds for results in the inputs' dtypes.

    Args:
        upstream: the gradient of each token's loss, for `reduction="none"`.
        options: as `contenders.OPTIONS` names them; `class_weight` not together with smoothing or z_loss.
    """
    h64, w64 = h.double(), weight.double()
    counted = target != options.get("ignore_index", -100)
    share, divisor = _shares(target, counted, upstream, options)
    operand = max(TF32_PRODUCTS if dtype == torch.float32 else UNIT[dtype] for dtype in (h.dtype, weight.dtype))
    both = _Sums(h64, w64, operand, max(LEAST[h.dtype], LEAST[weight.dtype]))
    losses, loss_bounds = torch.zeros_like(share), torch.zeros_like(share)
    step = max(1, LOGITS_AT_ONCE // len(weight))
    for start in range(0, len(h), step):
        rows = slice(start, start + step)
        part = _tokens(h64[rows], w64, target[rows].clamp_min(0), operand, h.dtype, options)
        losses[rows], loss_bounds[rows] = (it * counted[rows] for it in (part["loss"], part["loss_bound"]))
        both.add(rows, part["target"], *(part[name] * share[rows, None] for name in ("dlogits", "off")))
    own = class_share(target, counted, options)
    made = Exact()
    if options.get("reduction", "mean") == "none":
        made.values["loss"], made.bounds["loss"] = losses * own, loss_bounds * own
    else:
        loss = (losses * own).sum() / divisor
        made.values["loss"] = loss
        made.bounds["loss"] = (loss_bounds * own).sum() / divisor + LAMBDA * math.sqrt(len(h)) * ROUND * loss.abs()
    made.values |= {"dh": both.dh, "dw": both.dw}
    made.bounds |= {"dh": both.bound_dh(UNIT[h.dtype]), "dw": both.bound_dw(UNIT[weight.dtype])}
    return made


def class_share(target: Tensor, counted: Tensor, options: dict[str, Any]) -> Tensor:
    """The weight of each token's loss: its class's, 1 without such weights, 0 where it is ignored."""
    weights = options.get("class_weight")
    return counted.double() if weights is None else weights.double()[target.clamp_min(0)] * counted


def _shares(target: Tensor, counted: Tensor, upstream: Tensor | None, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """What each token's loss counts in what is differentiated, and what a mean divides by."""
    own = class_share(target, counted, options)
    divisor = own.sum() if options.get("reduction", "mean") == "mean" else torch.ones_like(own.sum())
    return (own if upstream is None else own * upstream.double()) / divisor, divisor


def _tokens(
    h: Tensor, w: Tensor, target: Tensor, operand: float, dtype: torch.dtype, options: dict
) -> dict[str, Tensor]:
    """Of some tokens: losses, gradients of their logits before the softcap, and by how much each may be off."""
    words, width = w.shape
    raw = h @ w.T
    walk = (h.square() @ w.square().T).sqrt()
    if options.get("bias") is not None:
        raw = raw + options["bias"].double()
    off = LAMBDA * math.sqrt(width) * SUM * (walk + raw.abs())
    if operand == TF32_PRODUCTS:
        off = off + TF32_PRODUCTS * walk
    cap, slope = options.get("softcap"), None
    logits = raw
    if cap is not None:
        bent = torch.tanh(raw / cap)
        logits, slope = cap * bent, 1 - bent.square()
        off = off * slope + EXP_ULPS * ROUND * logits.abs()
    lse = torch.logsumexp(logits, -1, keepdim=True)
    p = (logits - lse).exp()
    summed = math.sqrt(words) * ROUND
    off_lse = (p * off).sum(-1, keepdim=True) + summed + ROUND * (EXP_ULPS + lse.abs())
    relative = off + off_lse + ROUND * (EXP_ULPS + (logits - lse).abs())
    smooth, z = options.get("label_smoothing", 0.0), options.get("z_loss", 0.0)
    at = target[:, None]
    gathered, off_gathered = logits.gather(-1, at), off.gather(-1, at)
    loss = lse - (1 - smooth) * gathered - smooth * logits.mean(-1, keepdim=True) + z * lse.square()
    loss_off = off_lse * (1 + 2 * z * lse.abs()) + (1 - smooth) * off_gathered + smooth * off.mean(-1, keepdim=True)
    loss_off = loss_off + (4 * ROUND + UNIT[dtype]) * loss.abs() + ROUND * gathered.abs()
    scaled = p * (1 + 2 * z * lse)
    dlogits = scaled - smooth / words
    dlogits.scatter_add_(-1, at, torch.full_like(gathered, smooth - 1))
    wrong = scaled * relative + 2 * z * p * off_lse + 4 * ROUND * dlogits.abs()
    if cap is not None and slope is not None:
        dlogits, wrong = dlogits * slope, wrong * slope + EXP_ULPS * ROUND * dlogits.abs()
        wrong = wrong + 2 * (raw / cap).abs() * off / cap * dlogits.abs()
    return {"loss": loss[:, 0], "loss_bound": loss_off[:, 0], "dlogits": dlogits, "off": wrong, "target": target}


class _Sums:
    """Both gradients and the parts of their bounds, added up over blocks of tokens."""

    def __init__(self, h: Tensor, w: Tensor, operand: float, least: float) -> None:
        self.h, self.w, self.operand, self.least = h, w, operand, least
        self.dh, self.dw = torch.zeros_like(h), torch.zeros_like(w)
        # squares of the terms, what float32 does to the logits' gradients, and terms that are rounded alike
        self.squares = {"dh": torch.zeros_like(h), "dw": torch.zeros_like(w)}
        self.off = {"dh": torch.zeros_like(h), "dw": torch.zeros_like(w)}
        self.alike = {"dh": torch.zeros_like(h), "dw_target": torch.zeros_like(w)}

    def add(self, rows: slice, target: Tensor, dlogits: Tensor, off: Tensor) -> None:
        h, w, at = self.h[rows], self.w, target[:, None]
        self.dh[rows], square = dlogits @ w, dlogits.square() + (self.least / self.operand) ** 2
        self.squares["dh"][rows], self.off["dh"][rows] = square @ w.square(), off.abs() @ w.abs()
        targets = dlogits.gather(-1, at)
        term = targets * w[target]
        self.alike["dh"][rows] = term.abs() + (self.dh[rows] - term).abs()
        self.dw += dlogits.T @ h
        self.squares["dw"] += square.T @ h.square()
        self.off["dw"] += off.abs().T @ h.abs()
        self.alike["dw_target"].index_add_(0, target, targets * h)

    def bound_dh(self, unit: float) -> Tensor:
        return self._bound("dh", self.dh, self.alike["dh"], len(self.w), unit)

    def bound_dw(self, unit: float) -> Tensor:
        ours = self.alike["dw_target"]
        return self._bound("dw", self.dw, ours.abs() + (self.dw - ours).abs(), len(self.h), unit)

    def _bound(self, name: str, value: Tensor, alike: Tensor, terms: int, unit: float) -> Tensor:
        walk, rounded = self.squares[name].sqrt(), LAMBDA * RMS
        random = (rounded * self.operand * walk).square() + (rounded * unit * value.abs() + self.least).square()
        parts = (random + (self.operand * alike).square()).sqrt()
        return parts + self.off[name] + LAMBDA * math.sqrt(terms) * SUM * (walk + value.abs())


def judged(result: Tensor, value: Tensor, bound: Tensor) -> tuple[float, float]:
    """The error of a result and what is allowed, both relative, in the row that is worst by their ratio.

    Returns:
        (error, allowed); the error is infinite where the result is wrong in kind: in shape, or with a NaN.
    """
    if result.shape != value.shape:
        return math.inf, 0.0
    rows = (1, -1) if value.ndim == 0 else (len(value), -1)
    got, right, allowed = (one.double().reshape(rows) for one in (result, value, bound))
    miss, limit = (got - right).norm(dim=-1), allowed.norm(dim=-1)
    if not miss.isfinite().all():
        return math.inf, 0.0
    # a row that must be zero and is has no error at all
    ratio = torch.where(miss == 0, 0.0, miss / limit)
    worst = int(ratio.argmax())
    size = right[worst].norm()
    if size == 0:
        return (math.inf if miss[worst] > limit[worst] else 0.0), 0.0
    return (miss[worst] / size).item(), (limit[worst] / size).item()
