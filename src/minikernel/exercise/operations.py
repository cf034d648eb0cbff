"""What the exercises ask for besides softmax: LayerNorm, cross-entropy and a head's loss, each against float64.

None takes a plain relative error. A normalised element may be next to nothing, a difference of two large numbers:
its error is told in units of what rounding the row itself to float32 could move it by. A loss may be next to nothing
too, where the model is sure: below 1 its error is absolute. A head's logits are sums over a row, and the error of its
loss is told in units of what rounding could move such a sum by.
"""

import math

import torch

from minikernel.exercise.mistakes import (
    MANY,
    OF_CROSS_ENTROPY,
    OF_HEAD_LOSS,
    OF_LAYER_NORM,
    OF_SOFTMAX,
    cross_entropy_float64,
    head_loss_float64,
    layer_norm_float64,
)
from minikernel.judge.operation import SOFTMAX, Operation

NORM_TOLERANCE = 2e-6
LOSS_TOLERANCE = 1e-5
HEAD_TOLERANCE = 2e-6
WORDS, WEIGHTS = 600, 1 << 20  # rows of a head's weight, and at most so many numbers in it


def _generator(x: torch.Tensor) -> torch.Generator:
    """Random numbers that follow from x: others for other rows, the same for the same."""
    return torch.Generator().manual_seed(int(x.contiguous().view(torch.int32).long().sum()) & 0xFFFFFFFF)


def weight_and_bias(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands of LayerNorm: (cols,) each, float32."""
    generator, cols = _generator(x), x.shape[-1]
    return 1 + 0.5 * torch.randn(cols, generator=generator), torch.randn(cols, generator=generator)


def targets(x: torch.Tensor) -> tuple[torch.Tensor]:
    """The operand of cross-entropy: for each row the column of the word that came, int64, of the shape of the rows."""
    return (torch.randint(x.shape[-1], x.shape[:-1], generator=_generator(x)),)


def head(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands of a head's loss: its weight, (words, cols) float32, and the word that came for each row, int64."""
    generator, cols = _generator(x), x.shape[-1]
    words = min(WORDS, max(2, WEIGHTS // cols))
    weight = torch.randn(words, cols, generator=generator) / cols**0.5
    return weight, torch.randint(words, x.shape[:-1], generator=generator)


def error_of_layer_norm(result: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> float:
    """The largest error, in units of what rounding its row to float32 could move an element by."""
    row = x.double()
    exact = layer_norm_float64(row, weight.double(), bias.double())
    if result.shape != exact.shape:
        return math.inf
    spread = (row - row.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).add(1e-5).sqrt()
    scale = weight.double().abs() * (row.abs().amax(-1, keepdim=True) / spread + 1) + bias.double().abs()
    return _largest((result.double() - exact).abs() / scale, result, exact)


def error_of_cross_entropy(result: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> float:
    """The largest error of a loss, relative to it where it is more than 1."""
    exact = cross_entropy_float64(x.double(), target).float().double()  # some are too large for float32
    if result.shape != exact.shape:
        return math.inf
    apart = (result.double() - exact).abs() / exact.clamp(min=1)
    return _largest(apart.where(result.double() != exact, 0.0), result, exact)  # two infinities are as near as can be


def error_of_head_loss(result: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> float:
    """The largest error of a loss, in units of the largest sum of a logit's terms, where that is more than 1."""
    exact = head_loss_float64(x.double(), weight.double(), target)
    if result.shape != exact.shape:
        return math.inf
    rows = x.double().abs().reshape(-1, x.shape[-1]).split(MANY)
    terms = [(part @ weight.double().abs().t()).amax(-1) for part in rows if len(part)]
    scale = torch.cat(terms).view(exact.shape).clamp(min=1) if terms else torch.ones_like(exact)
    return _largest((result.double() - exact).abs() / scale, result, exact)


def _largest(error: torch.Tensor, result: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest of some errors; infinite where the result is wrong in kind, or has a NaN where none belongs."""
    if not torch.equal(result.isnan(), exact.isnan()):
        return math.inf
    known = ~exact.isnan()
    return error[known].nan_to_num(math.inf, math.inf).max().item() if known.any() else 0.0


OPERATIONS = {
    "softmax": SOFTMAX._replace(mistakes=OF_SOFTMAX),
    "layer_norm": Operation(
        layer_norm_float64, error_of_layer_norm, NORM_TOLERANCE, operands=weight_and_bias, mistakes=OF_LAYER_NORM
    ),
    "cross_entropy": Operation(
        cross_entropy_float64,
        error_of_cross_entropy,
        LOSS_TOLERANCE,
        operands=targets,
        shape=lambda shape: shape[:-1],
        mistakes=OF_CROSS_ENTROPY,
    ),
    "head_loss": Operation(
        head_loss_float64,
        error_of_head_loss,
        HEAD_TOLERANCE,
        operands=head,
        shape=lambda shape: shape[:-1],
        mistakes=OF_HEAD_LOSS,
    ),
}
