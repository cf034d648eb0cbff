"""LayerNorm and cross-entropy against float64: torch's own pass on every case, and a known mistake is named."""

import pytest
import torch
import torch.nn.functional as F

from minikernel.exercise.cases import cases_of
from minikernel.exercise.operations import OPERATIONS

NAMES = ("layer_norm", "cross_entropy", "head_loss", "softmax")
LAYER_NORM, CROSS_ENTROPY, HEAD_LOSS, SOFTMAX = (OPERATIONS[name] for name in NAMES)


def torch_layer_norm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


def torch_cross_entropy(x, target):
    rows = x.reshape(-1, x.shape[-1])
    return F.cross_entropy(rows, target.reshape(-1), reduction="none").view(target.shape)


def torch_head_loss(x, weight, target):
    return torch_cross_entropy(x @ weight.t(), target)


@pytest.mark.parametrize(
    ("name", "function"),
    [("layer_norm", torch_layer_norm), ("cross_entropy", torch_cross_entropy), ("head_loss", torch_head_loss)],
)
def test_torch_s_own_is_right_on_every_case(name: str, function):
    operation = OPERATIONS[name]
    for case in cases_of(name):
        operands = operation.operands(case.x)
        result = function(case.x, *operands)
        assert result.shape == operation.shape(case.x.shape)
        assert operation.error(result, case.x, *operands) <= operation.tolerance, case.name


def test_operands_follow_from_the_rows():
    x = torch.randn(3, 7)
    for operation in (LAYER_NORM, CROSS_ENTROPY, HEAD_LOSS):
        assert all(map(torch.equal, operation.operands(x), operation.operands(x.clone())))
        assert not all(map(torch.equal, operation.operands(x), operation.operands(x + 1)))
    assert SOFTMAX.operands(x) == ()


@pytest.mark.parametrize("operation", [LAYER_NORM, CROSS_ENTROPY, HEAD_LOSS], ids=NAMES[:3])
def test_zeros_another_shape_and_a_stray_nan_are_wrong(operation):
    x = torch.randn(5, 600)
    operands = operation.operands(x)
    right = operation.exact(x.double(), *(one.double() if one.is_floating_point() else one for one in operands))
    assert operation.error(right.float(), x, *operands) <= operation.tolerance
    assert operation.error(torch.zeros_like(right), x, *operands) > operation.tolerance
    assert operation.error(right[:4], x, *operands) == float("inf")
    assert operation.error(right.index_fill(0, torch.tensor([1]), torch.nan), x, *operands) == float("inf")
    assert operation.error(right.index_fill(0, torch.tensor([1]), torch.inf), x, *operands) == float("inf")


def test_what_rounding_the_row_explains_is_no_error_of_layer_norm():
    x = 3 * torch.randn(5, 600) + 1e4
    weight, bias = LAYER_NORM.operands(x)
    rounded = torch_layer_norm(x.double() * (1 + 1e-7), weight.double(), bias.double())
    assert LAYER_NORM.error(rounded, x, weight, bias) <= LAYER_NORM.tolerance
    squares = (x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square() + 1e-5).sqrt()
    cancelled = (x - x.mean(-1, keepdim=True)) / squares * weight + bias
    assert not LAYER_NORM.error(cancelled, x, weight, bias) <= LAYER_NORM.tolerance


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_a_known_mistake_gives_is_named_after_it(name: str):
    operation = OPERATIONS[name]
    x = torch.randn(5, 600, generator=torch.Generator().manual_seed(1)).double()
    operands = [one.double() if one.is_floating_point() else one for one in operation.operands(x.float())]
    named = set()
    for mistake, gives in operation.mistakes:
        for made in gives(x, *operands):
            if made.shape == operation.shape(x.shape) and not made.isnan().any():
                looks = operation.mistake(made.float(), x.float(), *operands)
                assert looks == {"mistake": mistake} or operation.error(made, x.float(), *operands) < 1e-3
                named |= set(looks.values())
    assert len(named) >= 5


def test_a_right_result_and_a_strange_one_look_like_no_mistake():
    x = torch.randn(5, 600)
    assert SOFTMAX.mistake(torch.softmax(x, -1), x) == {}
    assert SOFTMAX.mistake(torch.rand(5, 600), x) == {}
    assert SOFTMAX.mistake(torch.softmax(x, -1) * (1 + 3e-4), x) == {}
    assert SOFTMAX.mistake(torch.full((5, 600), torch.nan), x) == {}
    assert SOFTMAX.mistake(torch.softmax(x, -1)[:3], x) == {}
