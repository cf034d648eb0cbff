"""How far a softmax is from the exact one, by the only measure that zeros do not pass: relative error."""

import math

import torch

ROWS_AT_ONCE = 1 << 14


def relative_error(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Largest elementwise |result - exact| / exact; infinite where the result is wrong in kind.

    Shapes must agree and NaN must stand exactly where the exact result has it. Below the smallest normal
    number of its dtype no result can keep a relative error; there it must lie between 0 and twice that
    number instead.

    Args:
        result: probabilities in any floating dtype.
        exact: the same in float64, on any device.
    """
    got, exact = result.double(), exact.to(result.device)
    # NaN where the exact result has it and nowhere else: a kernel that hides one is as wrong as one that makes one.
    nan = exact.isnan()
    if got.shape != exact.shape or not torch.equal(got.isnan(), nan):
        return math.inf
    # denormal numbers: a GPU may flush them to 0, so that no relative error can be asked for
    tiny = torch.finfo(result.dtype).tiny
    small = exact < tiny
    if ((got < 0) | (got > 2 * tiny))[small].any():
        return math.inf
    judged = ~(small | nan)
    if not judged.any():
        return 0.0
    return ((got - exact).abs() / exact)[judged].max().item()


def softmax_error(result: torch.Tensor, x: torch.Tensor) -> float:
    """`relative_error` of `result` as the softmax of `x`, both (rows, cols), against float64 on their own device.

    `ROWS_AT_ONCE` rows at a time, so that float64 copies of a large tensor never exist whole.
    """
    starts = range(0, x.shape[0], ROWS_AT_ONCE)
    pieces = [slice(start, start + ROWS_AT_ONCE) for start in starts]
    return max(relative_error(result[piece], torch.softmax(x[piece].double(), -1)) for piece in pieces)
