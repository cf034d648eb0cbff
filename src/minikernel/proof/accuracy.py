"""How far a softmax is from the exact one, by the only measure that zeros do not pass: relative error."""

import math

import torch

from minikernel.ops.softmax_reference import softmax_float64
from minikernel.reasons import Refusal

ROWS_AT_ONCE = 1 << 14
REFERENCE_TOLERANCE = 1e-10  # of float64's own result; its rounding is a millionth of that


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
    return max(relative_error(result[piece], exact_softmax(x[piece].double())) for piece in pieces)


def exact_softmax(x: torch.Tensor) -> torch.Tensor:
    """torch's softmax of float64 rows (rows, cols) where they are, itself looked at before anything is judged by it.

    Each row sums to one, or is NaN where its maximum is no number. The first, the middle and the last agree besides
    with NumPy's on the CPU.

    Raises:
        Refusal: torch's is off.
    """
    exact = torch.softmax(x, -1)
    if not x.numel():
        return exact
    sums, peaks = exact.sum(-1), x.amax(-1)
    sound = torch.where(peaks.isfinite(), (sums - 1).abs() <= REFERENCE_TOLERANCE, sums.isnan()).all()
    some = [0, len(x) // 2, len(x) - 1]
    other = softmax_float64(x[some].cpu().numpy())
    agree = torch.allclose(exact[some].cpu(), torch.from_numpy(other), REFERENCE_TOLERANCE, 1e-300, equal_nan=True)
    if not (sound and agree):
        raise Refusal({"code": "reference_off", "device": x.device.type, "cols": x.shape[-1]})
    return exact
