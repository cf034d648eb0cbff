"""What a function gives that makes a known mistake: a wrong result that looks like one is told so.

Each takes `x` (and what goes with it) in float64 and yields the results that the mistake may give, one for each way in
which it can be made; NaN stands where nobody can know. Mistakes that show in another way than in the values (a changed
input, a buffer used twice, an overflow) are found by `minikernel.exercise.diagnosis`.
"""

from collections.abc import Iterator

import torch

EPSILON = 1e-5  # of LayerNorm
TILES = (128, 256, 512, 1024)


def layer_norm_float64(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + EPSILON).sqrt() * weight + bias


def cross_entropy_float64(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return -_at(torch.log_softmax(x, -1), target)


def _at(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return x.gather(-1, target.unsqueeze(-1)).squeeze(-1)


def _padding(x: torch.Tensor) -> int:
    """Lanes of the tile of the next power of two that lie outside a row."""
    return (1 << (x.shape[-1] - 1).bit_length()) - x.shape[-1]


def _shifted(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    top = x.amax(-1, keepdim=True)
    return (x - top).exp(), top


def _other_axis(x: torch.Tensor) -> Iterator[torch.Tensor]:
    if x.dim() > 1:
        yield torch.softmax(x, 0)


def _all_elements(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield torch.softmax(x.flatten(), 0).view(x.shape)


def _no_quotient(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield _shifted(x)[0]
    yield x.exp()


def _sum_of_all(x: torch.Tensor) -> Iterator[torch.Tensor]:
    powers = _shifted(x)[0]
    yield powers / powers.sum()


def _logarithm(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield torch.log_softmax(x, -1)


def _base_two(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield torch.softmax(x * torch.tensor(2.0).log(), -1)


def _beyond_the_row(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """What follows a row in memory counted as part of it; what follows the last rows is not known."""
    rows, cols = x.reshape(-1, x.shape[-1]), x.shape[-1]
    tile = cols + _padding(x)
    after = torch.full((tile,), torch.nan, dtype=x.dtype)
    windows = torch.cat([rows.flatten(), after]).unfold(0, tile, cols)[: len(rows)]
    yield torch.softmax(windows, -1)[:, :cols].view(x.shape)


def _padded_with_zeros(x: torch.Tensor) -> Iterator[torch.Tensor]:
    if padding := _padding(x):
        zeros = x.new_zeros(*x.shape[:-1], padding)
        yield torch.softmax(torch.cat([x, zeros], -1), -1)[..., : x.shape[-1]]
        powers, _ = _shifted(x)  # the maximum of the row alone, the zeros in the sum alone
        yield powers / (powers.sum(-1, keepdim=True) + padding * (-x.amax(-1, keepdim=True)).exp())


def _tile_by_tile(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for tile in TILES:
        if x.shape[-1] > tile:
            yield torch.cat([torch.softmax(part, -1) for part in x.split(tile, -1)], -1)


def _sums(x: torch.Tensor, tile: int) -> Iterator[torch.Tensor]:
    """Sums over tiles that are not put right when the maximum grows: left as they are, or scaled the wrong way."""
    tops = torch.stack([part.amax(-1, keepdim=True) for part in x.split(tile, -1)]).cummax(0).values
    left = backwards = torch.zeros_like(tops[0])
    before = tops[0]
    for part, top in zip(x.split(tile, -1), tops, strict=True):
        added = (part - top).exp().sum(-1, keepdim=True)
        left = left + added
        backwards = backwards * (top - before).exp() + added
        before = top
    yield left
    yield backwards


def _not_rescaled(x: torch.Tensor) -> Iterator[torch.Tensor]:
    powers, _ = _shifted(x)
    for tile in TILES:
        if x.shape[-1] > tile:
            yield from (powers / total for total in _sums(x, tile))


OF_SOFTMAX = (
    ("axis", _other_axis),
    ("axis", _all_elements),
    ("axis", _sum_of_all),
    ("quotient", _no_quotient),
    ("logarithm", _logarithm),
    ("base", _base_two),
    ("load_mask", _beyond_the_row),
    ("padding", _padded_with_zeros),
    ("tile_by_tile", _tile_by_tile),
    ("rescale", _not_rescaled),
)


def _normalised(x, weight, bias, variance: torch.Tensor, mean: torch.Tensor | float | None = None) -> torch.Tensor:
    centred = x - (x.mean(-1, keepdim=True) if mean is None else mean)
    return centred / (variance + EPSILON).sqrt() * weight + bias


def _variance(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True)


def _no_epsilon(x, weight, bias) -> Iterator[torch.Tensor]:
    yield (x - x.mean(-1, keepdim=True)) / _variance(x).sqrt() * weight + bias


def _epsilon_outside(x, weight, bias) -> Iterator[torch.Tensor]:
    yield (x - x.mean(-1, keepdim=True)) / (_variance(x).sqrt() + EPSILON) * weight + bias


def _unbiased(x, weight, bias) -> Iterator[torch.Tensor]:
    if x.shape[-1] > 1:
        yield _normalised(x, weight, bias, x.var(-1, correction=1, keepdim=True))


def _no_root(x, weight, bias) -> Iterator[torch.Tensor]:
    yield (x - x.mean(-1, keepdim=True)) / (_variance(x) + EPSILON) * weight + bias


def _no_mean(x, weight, bias) -> Iterator[torch.Tensor]:
    yield _normalised(x, weight, bias, x.square().mean(-1, keepdim=True), 0.0)
    yield _normalised(x, weight, bias, _variance(x), 0.0)


def _no_weight(x, weight, bias) -> Iterator[torch.Tensor]:
    one, none = torch.ones_like(weight), torch.zeros_like(bias)
    yield layer_norm_float64(x, one, bias)
    yield layer_norm_float64(x, weight, none)
    yield layer_norm_float64(x, one, none)
    yield layer_norm_float64(x, bias, weight)


def _lanes_in_variance(x, weight, bias) -> Iterator[torch.Tensor]:
    """Lanes outside the row: each adds the square of the mean to the variance."""
    added = _padding(x) * x.mean(-1, keepdim=True).square() / x.shape[-1]
    yield _normalised(x, weight, bias, _variance(x) + added)


def _lanes_in_count(x, weight, bias) -> Iterator[torch.Tensor]:
    """Divided by the tile's length rather than by the row's."""
    tile = x.shape[-1] + _padding(x)
    mean = x.sum(-1, keepdim=True) / tile
    yield _normalised(x, weight, bias, (x - mean).square().sum(-1, keepdim=True) / tile, mean)


def _normalised_over_rows(x, weight, bias) -> Iterator[torch.Tensor]:
    if x.dim() > 1:
        centred = x - x.mean(0)
        yield centred / (centred.square().mean(0) + EPSILON).sqrt() * weight + bias


OF_LAYER_NORM = (
    ("axis", _normalised_over_rows),
    ("epsilon", _no_epsilon),
    ("epsilon", _epsilon_outside),
    ("unbiased", _unbiased),
    ("root", _no_root),
    ("mean", _no_mean),
    ("weight", _no_weight),
    ("lanes", _lanes_in_variance),
    ("length", _lanes_in_count),
)


def _sign(x, target) -> Iterator[torch.Tensor]:
    yield -cross_entropy_float64(x, target)


def _probability(x, target) -> Iterator[torch.Tensor]:
    yield _at(torch.softmax(x, -1), target)
    yield -_at(torch.softmax(x, -1), target)


def _bits(x, target) -> Iterator[torch.Tensor]:
    yield cross_entropy_float64(x, target) / torch.tensor(2.0, dtype=x.dtype).log()


def _first_row(x, target) -> Iterator[torch.Tensor]:
    """The logit that the target names, in the first row."""
    yield x.logsumexp(-1) - x.reshape(-1, x.shape[-1])[0][target] if x.numel() else x.logsumexp(-1)


def _no_target(x, target) -> Iterator[torch.Tensor]:
    yield x.logsumexp(-1)


def _padded_sum(x, target) -> Iterator[torch.Tensor]:
    if padding := _padding(x):
        zeros = x.new_zeros(*x.shape[:-1], padding)
        yield torch.cat([x, zeros], -1).logsumexp(-1) - _at(x, target)


def _logarithm_of_zero(x, target) -> Iterator[torch.Tensor]:
    """A probability that is 0 in float32, and then its logarithm."""
    loss = -_at(torch.softmax(x.float(), -1), target).log().double()
    if loss.isinf().any():
        yield loss


def _last_tile(x, target) -> Iterator[torch.Tensor]:
    for tile in TILES:
        if x.shape[-1] > tile:
            yield x.split(tile, -1)[-1].logsumexp(-1) - _at(x, target)


def _loss_not_rescaled(x, target) -> Iterator[torch.Tensor]:
    for tile in TILES:
        if x.shape[-1] > tile:
            tops = x.amax(-1)
            yield from (tops + total.squeeze(-1).log() - _at(x, target) for total in _sums(x, tile))


def _maximum_left_out(x, target) -> Iterator[torch.Tensor]:
    """The logarithm of the shifted sum, and the target's logit as it was."""
    yield _shifted(x)[0].sum(-1).log() - _at(x, target)


OF_CROSS_ENTROPY = (
    ("sign", _sign),
    ("probability", _probability),
    ("base", _bits),
    ("first_row", _first_row),
    ("target", _no_target),
    ("padding", _padded_sum),
    ("logarithm_of_zero", _logarithm_of_zero),
    ("tile_by_tile", _last_tile),
    ("rescale", _loss_not_rescaled),
    ("shift", _maximum_left_out),
)
