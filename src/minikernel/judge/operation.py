"""What a kernel is asked to compute: softmax, unless an exercise says otherwise.

An operation takes `x`, whose last axis is a row, and perhaps more operands that go with it. How far a result may be
from the exact one is the operation's to measure: relative error for a softmax, which no zeros pass.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from minikernel.proof.accuracy import softmax_error
from minikernel.proof.proof import REFERENCE_TOLERANCE, numpy_error

LARGE = 1 << 20  # elements from which a result is compared a piece at a time, where the kernel runs
LOOKS_LIKE = 1e-3  # relative difference up to which a wrong result may be that of a known mistake
CLEARLY = 0.1  # and how much nearer it must be to that than to the right result
RIGHT = ""  # the name of what is no mistake

Mistake = Callable[..., Iterable[torch.Tensor]]  # (x, *operands) in float64 -> the results that it may give


class Operation(NamedTuple):
    """What is computed of `x`.

    Attributes:
        error: (result, x, *operands) -> the error, infinite where the result is wrong in kind.
        tolerance: the largest error that passes, in float32.
        operands: x -> what the function takes after it, the same for the same x.
        shape: the shape of x -> the shape of the result.
        mistakes: known ones, by name, and `RIGHT`. What such a function gives is NaN where that is not known.
    """

    error: Callable[..., float]
    tolerance: float
    operands: Callable[[torch.Tensor], tuple[torch.Tensor, ...]] = lambda x: ()
    shape: Callable[[torch.Size], torch.Size] = lambda shape: shape
    mistakes: Sequence[tuple[str, Mistake]] = ()

    def mistake(self, result: torch.Tensor, x: torch.Tensor, *operands: torch.Tensor) -> dict[str, str]:
        """{"mistake": the known one whose result is nearest to a wrong one}; nothing where none is near."""
        got, given = result.double().cpu(), [x.double().cpu(), *(one.cpu() for one in operands)]
        apart = [(_apart(got, made), name) for name, mistake in self.mistakes for made in mistake(*given)]
        nearest, name = min(apart, default=(1.0, RIGHT))
        from_right = min((far for far, name in apart if name == RIGHT), default=float("inf"))
        return {"mistake": name} if nearest <= min(LOOKS_LIKE, CLEARLY * from_right) else {}


def _apart(got: torch.Tensor, made: torch.Tensor) -> float:
    """The largest relative difference where `made` is known; infinite where they differ in kind."""
    known = ~made.isnan()
    if made.shape != got.shape or not known.any():
        return float("inf")
    got, made = got[known], made[known]
    differs = got != made  # infinities are equal or not
    apart = ((got - made).abs() / (made.abs() + torch.finfo(torch.float32).tiny))[differs]
    return apart.nan_to_num(float("inf")).max().item() if differs.any() else 0.0


def error_of_softmax(result: torch.Tensor, x: torch.Tensor) -> float:
    """Relative error against float64, of a large tensor a piece at a time where it lies."""
    if x.numel() < LARGE:
        return numpy_error(result, x)
    return softmax_error(result.reshape(-1, x.shape[-1]), x.reshape(-1, x.shape[-1]))


SOFTMAX = Operation(error_of_softmax, REFERENCE_TOLERANCE["float32"])
