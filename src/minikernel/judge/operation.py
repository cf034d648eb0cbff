"""What a kernel is asked to compute: softmax, unless an exercise says otherwise.

An operation takes `x`, whose last axis is a row, and perhaps more operands that go with it. How far a result may be
from the exact one is the operation's to measure: relative error for a softmax, which no zeros pass.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch

from minikernel.judge.kinds import wrong_value
from minikernel.proof.accuracy import ROWS_AT_ONCE, softmax_error
from minikernel.proof.proof import REFERENCE_TOLERANCE, numpy_error
from minikernel.reasons import Reason

LARGE = 1 << 20  # elements from which a result is compared a piece at a time, where the kernel runs
LOOKS_LIKE = 1e-3  # relative difference up to which a wrong result may be that of a known mistake
LOOKED_AT = 1 << 14  # elements up to which mistakes are looked for; a wrong function is wrong on small inputs too
CLEARLY = 0.1  # and how much nearer it must be to that than to the exact one

Mistake = Callable[..., Iterable[torch.Tensor]]  # (x, *operands) in float64 -> the results that it may give


class Operation(NamedTuple):
    """What is computed of `x`.

    Attributes:
        exact: (x, *operands) in float64 -> the result.
        error: (result, x, *operands) -> the error, infinite where the result is wrong in kind.
        tolerance: the largest error that passes, in float32.
        operands: x -> what the function takes after it, the same for the same x.
        shape: the shape of x -> the shape of the result.
        mistakes: known ones, by name. What such a function gives is NaN where that is not known.
    """

    exact: Callable[..., torch.Tensor]
    error: Callable[..., float]
    tolerance: float
    operands: Callable[[torch.Tensor], tuple[torch.Tensor, ...]] = lambda x: ()
    shape: Callable[[torch.Size], torch.Size] = lambda shape: shape
    mistakes: Sequence[tuple[str, Mistake]] = ()

    def in_kind(self, result: torch.Tensor, x: torch.Tensor, *operands: torch.Tensor) -> Reason:
        """The reason of a result whose error is infinite, a large one looked at some rows at a time."""
        if x.dim() != 2 or operands:
            given = [one.double() if one.is_floating_point() else one for one in (x, *operands)]
            return wrong_value(result, self.exact(*given)) or {"code": "wrong_in_kind"}
        for row in range(0, len(x), ROWS_AT_ONCE):
            piece = slice(row, row + ROWS_AT_ONCE)
            if found := wrong_value(result[piece], self.exact(x[piece].double()), row):
                return found
        return {"code": "wrong_in_kind"}

    def mistake(self, result: torch.Tensor, x: torch.Tensor, *operands: torch.Tensor) -> dict[str, str]:
        """{"mistake": the known one whose result is nearest to a wrong one}; nothing where none is near."""
        if x.numel() > LOOKED_AT:
            return {}
        got = result.double().cpu()
        given = [x.double().cpu(), *(one.double().cpu() if one.is_floating_point() else one.cpu() for one in operands)]
        exact = self.exact(*given)
        near = [
            (apart, name)
            for name, mistake in self.mistakes
            for made in mistake(*given)
            if (apart := _apart(got, made, exact)) is not None
        ]
        return {"mistake": min(near)[1]} if near else {}


def _apart(got: torch.Tensor, made: torch.Tensor, exact: torch.Tensor) -> float | None:
    """How far a result is from that of a mistake, where this is known; None where it is not clearly nearer to it."""
    if not got.shape == made.shape == exact.shape:
        return None
    known = ~made.isnan() & ~exact.isnan()
    apart, from_exact = (_largest_difference(got[known], other[known]) for other in (made, exact))
    # Near the mistake's result, and ten times nearer to it than to
    # the exact one: a guess that is told as a hint must not be wrong.
    return apart if apart <= min(LOOKS_LIKE, CLEARLY * from_exact) and from_exact else None


def _largest_difference(got: torch.Tensor, other: torch.Tensor) -> float:
    """The largest relative difference; 0 of nothing, infinite where one is NaN or another infinity."""
    relative = (got - other).abs() / (other.abs() + torch.finfo(torch.float32).tiny)
    # equal infinities are equal, where their difference would be NaN
    relative = relative.where(got != other, 0.0).nan_to_num(math.inf, math.inf)
    return relative.max().item() if relative.numel() else 0.0


def error_of_softmax(result: torch.Tensor, x: torch.Tensor) -> float:
    """Relative error against float64, of a large tensor a piece at a time where it lies."""
    if x.numel() < LARGE:
        return numpy_error(result, x)
    return softmax_error(result.reshape(-1, x.shape[-1]), x.reshape(-1, x.shape[-1]))


SOFTMAX = Operation(partial(torch.softmax, dim=-1), error_of_softmax, REFERENCE_TOLERANCE["float32"])
