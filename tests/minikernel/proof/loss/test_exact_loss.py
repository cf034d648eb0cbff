"""The float64 loss against torch's own in float64, and the errors that are allowed against those of roundings."""

import pytest
import torch
import torch.nn.functional as F

from minikernel.proof.loss import exact as module
from minikernel.proof.loss.contenders import eager_loss
from minikernel.proof.loss.exact import RMS, exact, judged

M, D, V = 13, 8, 37


def drawn(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    h, weight = (torch.randn(rows, D, generator=generator) for rows in (M, V))
    target = torch.randint(0, V, (M,), generator=generator)
    target[4] = -100
    return h.to(dtype), weight.to(dtype), target, torch.rand(V, generator=generator).to(dtype) + 0.5


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reduction": "sum"},
        {"reduction": "none"},
        {"label_smoothing": 0.2},
        {"z_loss": 0.05},
        {"softcap": 1.5},
        {"bias": True},
        {"class_weight": True},
        {"class_weight": True, "reduction": "none"},
        {"softcap": 1.5, "z_loss": 0.05, "label_smoothing": 0.2, "bias": True, "reduction": "sum"},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
@pytest.mark.parametrize("at_once", [5 * V, 1 << 24])
def test_value_and_gradients_are_those_of_torch_in_float64(options, at_once, monkeypatch):
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", at_once)
    monkeypatch.setitem(module.UNIT, torch.float64, 2.0**-53)
    monkeypatch.setitem(module.LEAST, torch.float64, 0.0)
    h, weight, target, per_word = drawn()
    options = {name: per_word if it is True else it for name, it in options.items()}
    upstream = torch.linspace(-1, 2, M).double() if options.get("reduction") == "none" else None
    leaves = h.clone().requires_grad_(True), weight.clone().requires_grad_(True)
    loss = eager_loss(*leaves, target, ignore_index=-100, **options)
    if options.get("z_loss"):  # whose logarithm it takes in float32: with float64's here
        logits = F.linear(leaves[0], leaves[1], options.get("bias"))
        cap = options.get("softcap")
        lse = torch.logsumexp(logits if cap is None else cap * torch.tanh(logits / cap), -1)
        counted = target != -100
        squares = (lse.square() * counted).sum() / (counted.sum() if options.get("reduction") is None else 1)
        plain = eager_loss(*leaves, target, **{name: it for name, it in options.items() if name != "z_loss"})
        loss = plain + options["z_loss"] * squares
    dh, dw = torch.autograd.grad(loss, leaves, upstream)
    made = exact(h, weight, target, upstream, **options)
    for name, right in {"loss": loss.detach(), "dh": dh, "dw": dw}.items():
        torch.testing.assert_close(made.values[name], right, atol=1e-13, rtol=1e-10)
        assert (made.bounds[name] >= 0).all()


def test_an_ignored_token_admits_no_gradient_at_all():
    h, weight, target, _ = drawn(torch.float32)
    made = exact(h, weight, target)
    assert made.bounds["dh"][4].abs().max() == 0
    result = made.values["dh"].clone()
    result[4, 0] = 1e-30
    assert judged(result, made.values["dh"], made.bounds["dh"])[0] == float("inf")


def test_what_is_allowed_grows_with_the_dtype_and_with_large_logits():
    sizes = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        made = exact(*drawn(dtype)[:3])
        sizes[dtype] = (made.bounds["dh"].norm() / made.values["dh"].norm()).item()
    assert sizes[torch.float32] < 1e-4 < sizes[torch.float16] < sizes[torch.bfloat16] < 0.02
    assert sizes[torch.bfloat16] / sizes[torch.float16] == pytest.approx(8, rel=0.1)
    h, weight, target, _ = drawn(torch.float32)
    loss = {scale: exact(scale * h, weight, target).bounds["loss"].item() for scale in (1, 50)}
    assert loss[50] > 10 * loss[1]


def test_the_root_mean_square_of_a_rounding():
    numbers = torch.exp2(torch.rand(200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 9)
    errors = (numbers.bfloat16().double() - numbers) / numbers
    assert (errors.square().mean().sqrt() / 2**-8).item() == pytest.approx(RMS, abs=0.01)


def test_the_worst_row_is_judged_not_the_largest():
    value, bound = torch.ones(3, 4).double(), torch.full((3, 4), 0.1).double()
    value[1], bound[1] = 1e-3, 1e-4  # a row of small numbers, wrong by half
    result = value.clone()
    result[0] += 0.05
    result[1] *= 1.5
    error, allowed = judged(result, value, bound)
    assert (error, allowed) == (pytest.approx(0.5), pytest.approx(0.1))
