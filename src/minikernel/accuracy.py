"""How far a softmax is from the exact one, by the only measure that zeros do not pass: relative error."""

import torch

ROWS_AT_ONCE = 1 << 14


def max_relative_error(result: torch.Tensor, x: torch.Tensor) -> float:
    """Largest elementwise |result - exact| / exact, the exact softmax of `x` taken in float64.

    Elements whose exact value is below the smallest normal float32 are held to be no larger than twice
    that instead: no float32 format can keep a relative error there. NaN never passes.

    Args:
        result: (rows, cols), any floating dtype, the softmax to judge.
        x: (rows, cols), its input, on the same device.
    """
    tiny = torch.finfo(torch.float32).tiny
    worst = 0.0
    for start in range(0, x.shape[0], ROWS_AT_ONCE):
        exact = torch.softmax(x[start : start + ROWS_AT_ONCE].double(), -1)
        got = result[start : start + ROWS_AT_ONCE].double()
        error = torch.where(exact < tiny, torch.where(got <= 2 * tiny, 0.0, torch.inf), (got - exact).abs() / exact)
        worst = max(worst, error.nan_to_num(nan=torch.inf, posinf=torch.inf).max().item())
    return worst
