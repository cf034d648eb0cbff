"""What a function gives that makes a known mistake: a wrong result that looks like one is told so.

A mistake has a hint, and a formula of `x` (and what goes with it) in float64: the results that it may give, one for
each way in which it can be made; NaN stands where nobody can know. Mistakes that show in another way than in the values
(a changed input, a buffer used twice, an overflow) are found by `minikernel.exercise.diagnosis`.
"""

import math
from collections.abc import Callable

import torch

EPSILON = 1e-5  # of LayerNorm
MANY = 4096  # rows whose logits are made at once
TILES = (128, 256, 512, 1024)


def _tiles(x: torch.Tensor) -> list[int]:
    """The tiles of which a row needs more than one."""
    return [tile for tile in TILES if x.shape[-1] > tile]


def _padding(x: torch.Tensor) -> int:
    """Lanes of the tile of the next power of two that lie outside a row."""
    return (1 << (x.shape[-1] - 1).bit_length()) - x.shape[-1]


def _with_zeros(x: torch.Tensor) -> list[torch.Tensor]:
    """The rows and zeros in the lanes outside; nothing where no lane is outside."""
    return [torch.nn.functional.pad(x, (0, _padding(x)))] if _padding(x) else []


def _shifted(x: torch.Tensor) -> torch.Tensor:
    """The numerators of a softmax."""
    return (x - x.amax(-1, keepdim=True)).exp()


def _beyond_the_row(x: torch.Tensor) -> list[torch.Tensor]:
    """What follows a row in memory counted as part of it; what follows the last rows is not known."""
    rows, cols = x.reshape(-1, x.shape[-1]), x.shape[-1]
    tile = cols + _padding(x)
    after = torch.full((tile,), torch.nan, dtype=x.dtype)
    windows = torch.cat([rows.flatten(), after]).unfold(0, tile, cols)[: len(rows)]
    return [torch.softmax(windows, -1)[:, :cols].view(x.shape)]


def _zeros_in_the_sum(x: torch.Tensor) -> torch.Tensor:
    """The maximum of the row alone, the zeros outside it in the sum alone."""
    powers = _shifted(x)
    return powers / (powers.sum(-1, keepdim=True) + _padding(x) * (-x.amax(-1, keepdim=True)).exp())


def _sums(x: torch.Tensor) -> list[torch.Tensor]:
    """Sums over tiles that are not put right when the maximum grows: left as they are, or scaled the wrong way."""
    found = []
    for tile in _tiles(x):
        parts = x.split(tile, -1)
        tops = torch.stack([part.amax(-1, keepdim=True) for part in parts]).cummax(0).values
        left = backwards = torch.zeros_like(tops[0])
        before = tops[0]
        for part, top in zip(parts, tops, strict=True):
            added = (part - top).exp().sum(-1, keepdim=True)
            left = left + added
            backwards = backwards * (top - before).exp() + added
            before = top
        found += [left, backwards]
    return found


OF_SOFTMAX = (
    ("axis", lambda x: [torch.softmax(x, 0)] if x.dim() > 1 else []),
    ("axis", lambda x: [torch.softmax(x.flatten(), 0).view(x.shape)]),
    ("axis", lambda x: [_shifted(x) / _shifted(x).sum()]),
    ("quotient", lambda x: [_shifted(x), x.exp()]),
    ("logarithm", lambda x: [torch.log_softmax(x, -1)]),
    ("base", lambda x: [torch.softmax(x * math.log(2), -1)]),
    ("load_mask", _beyond_the_row),
    ("padding", lambda x: [torch.softmax(tile, -1)[..., : x.shape[-1]] for tile in _with_zeros(x)]),
    ("padding", lambda x: [_zeros_in_the_sum(x)] if _padding(x) else []),
    (
        "tile_by_tile",
        lambda x: [torch.cat([torch.softmax(part, -1) for part in x.split(tile, -1)], -1) for tile in _tiles(x)],
    ),
    ("rescale", lambda x: [_shifted(x) / total for total in _sums(x)]),
)


def layer_norm_float64(
    x: torch.Tensor, weight: torch.Tensor | float, bias: torch.Tensor | float, axis: int = -1
) -> torch.Tensor:
    centred = x - x.mean(axis, keepdim=True)
    return centred / (centred.square().mean(axis, keepdim=True) + EPSILON).sqrt() * weight + bias


def _centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


def _variance(x: torch.Tensor) -> torch.Tensor:
    return _centred(x).square().mean(-1, keepdim=True)


def _root(variance: torch.Tensor) -> torch.Tensor:
    return (variance + EPSILON).sqrt()


def _lanes_in_variance(x: torch.Tensor) -> torch.Tensor:
    """Lanes outside the row: each adds the square of the mean to the variance."""
    added = _padding(x) * x.mean(-1, keepdim=True).square() / x.shape[-1]
    return _centred(x) / _root(_variance(x) + added)


def _lanes_in_count(x: torch.Tensor) -> torch.Tensor:
    """Divided by the tile's length rather than by the row's."""
    tile = x.shape[-1] + _padding(x)
    mean = x.sum(-1, keepdim=True) / tile
    return (x - mean) / _root((x - mean).square().sum(-1, keepdim=True) / tile)


def _then_scaled(normalise: Callable[[torch.Tensor], list[torch.Tensor]]) -> Callable[..., list[torch.Tensor]]:
    """The same normalised rows, with weight and bias as they should be."""
    return lambda x, weight, bias: [row * weight + bias for row in normalise(x)]


OF_LAYER_NORM = (
    ("axis", _then_scaled(lambda x: [layer_norm_float64(x, 1, 0, axis=0)] if x.dim() > 1 else [])),
    ("epsilon", _then_scaled(lambda x: [_centred(x) / _variance(x).sqrt()])),
    ("epsilon", _then_scaled(lambda x: [_centred(x) / (_variance(x).sqrt() + EPSILON)])),
    ("unbiased", _then_scaled(lambda x: [_centred(x) / _root(x.var(-1, keepdim=True))] if x.shape[-1] > 1 else [])),
    ("root", _then_scaled(lambda x: [_centred(x) / (_variance(x) + EPSILON)])),
    ("mean", _then_scaled(lambda x: [x / _root(x.square().mean(-1, keepdim=True)), x / _root(_variance(x))])),
    ("lanes", _then_scaled(lambda x: [_lanes_in_variance(x)])),
    ("length", _then_scaled(lambda x: [_lanes_in_count(x)])),
    (
        "weight",
        lambda x, weight, bias: [
            layer_norm_float64(x, *wrong) for wrong in ((1, bias), (weight, 0), (1, 0), (bias, weight))
        ],
    ),
)


def cross_entropy_float64(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return -_at(torch.log_softmax(x, -1), target)


def _at(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return x.gather(-1, target.unsqueeze(-1)).squeeze(-1)


def _first_row(x: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
    """The logit that the target names, in the first row."""
    return [x.logsumexp(-1) - (x.reshape(-1, x.shape[-1])[0][target] if x.numel() else 0)]


def _logarithm_of_zero(x: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
    """A probability that is 0 in float32, and then its logarithm."""
    loss = -_at(torch.softmax(x.float(), -1), target).log().double()
    return [loss] if loss.isinf().any() else []


OF_CROSS_ENTROPY = (
    ("sign", lambda x, target: [-cross_entropy_float64(x, target)]),
    ("probability", lambda x, target: [sign * _at(torch.softmax(x, -1), target) for sign in (1, -1)]),
    ("base", lambda x, target: [cross_entropy_float64(x, target) / math.log(2)]),
    ("first_row", _first_row),
    ("target", lambda x, target: [x.logsumexp(-1)]),
    ("padding", lambda x, target: [tile.logsumexp(-1) - _at(x, target) for tile in _with_zeros(x)]),
    ("logarithm_of_zero", _logarithm_of_zero),
    (
        "tile_by_tile",
        lambda x, target: [x.split(tile, -1)[-1].logsumexp(-1) - _at(x, target) for tile in _tiles(x)],
    ),
    ("rescale", lambda x, target: [x.amax(-1) + total.squeeze(-1).log() - _at(x, target) for total in _sums(x)]),
    # the logarithm of the shifted sum, and the target's logit as it was
    ("shift", lambda x, target: [_shifted(x).sum(-1).log() - _at(x, target)]),
)


def head_loss_float64(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of the logits that a head makes of each row, some rows at a time."""
    parts = zip(x.reshape(-1, x.shape[-1]).split(MANY), target.reshape(-1).split(MANY), strict=True)
    return torch.cat([cross_entropy_float64(rows @ weight.t(), words) for rows, words in parts]).view(target.shape)


def _of_logits(mistake: Callable[..., list[torch.Tensor]]) -> Callable[..., list[torch.Tensor]]:
    """The same mistake, made with a head's logits."""
    return lambda x, weight, target: mistake(x @ weight.t(), target)


OF_HEAD_LOSS = tuple((name, _of_logits(mistake)) for name, mistake in OF_CROSS_ENTROPY)
