"""How far the gradient of a softmax is from the exact one, by a measure that zeros do not pass.

dx = (dy - sum(dy y)) y cancels: where dy_i is near the sum, dx_i is small and all of it may be rounding, so
that an element's own relative error says nothing. An error is therefore taken relative to the largest |dx| of
its row. In a row of few columns all of dx may have cancelled; below `CANCELLED` of what it was subtracted
from, max((|dy_i| + sum|dy y|) y_i), that is its scale.
"""

import math

import torch

CANCELLED = 1 / 16
# What a gradient of anybody's may err by to be compared. In 16 bits more than one rounding: the backward pass of
# torch's own softmax is off by 9.2e-3 in bfloat16 (H200, torch 2.11), 2.4 times what rounding the result costs.
GRADIENT_TOLERANCE = {"float32": 4.9e-5, "bfloat16": 4 * 2**-8, "float16": 4 * 2**-11}


def gradient_error(dx: torch.Tensor, dy: torch.Tensor, y: torch.Tensor) -> float:
    """Largest error of `dx`, over the rows of the last axis, against float64; infinite where it is wrong in kind.

    Args:
        dx: the gradient to judge.
        dy, y: what it was computed from, as the kernel saw them (rounded to its dtype), of the same shape.
    """
    if dx.shape != y.shape or dx.dtype != y.dtype:
        return math.inf
    if not y.numel():
        return 0.0
    got, incoming, probability = dx.double(), dy.double(), y.double()
    product = incoming * probability
    # exact for the y and dy that the kernel saw: what rounding them to 16 bits lost before is not its fault
    exact = (incoming - product.sum(-1, keepdim=True)) * probability
    if not torch.equal(got.isnan(), exact.isnan()):
        return math.inf
    # what dx was subtracted from: the size against which rounding has to be judged where dx itself has cancelled
    terms = ((incoming.abs() + product.abs().sum(-1, keepdim=True)) * probability).amax(-1)
    scale = torch.maximum(exact.abs().amax(-1), CANCELLED * terms)
    error = (got - exact).abs().amax(-1)
    # A row whose exact gradient is all zero admits no error at all.
    judged = ~(scale.isnan() | (scale == 0))
    if (error[scale == 0] > 0).any():
        return math.inf
    return (error[judged] / scale[judged]).max().item() if judged.any() else 0.0
