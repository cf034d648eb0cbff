"""The loss as torch has operators: traced, compiled, exported, cast, differentiated once and not twice."""

import pytest
import torch
import torch.nn.functional as F

from minikernel import LinearCrossEntropyLoss, linear_cross_entropy
from minikernel.ops.linear_cross_entropy.operator import backward_op, forward_op
from minikernel.ops.linear_cross_entropy.paths import which
from minilab import LabError

SETTINGS = (-100, 0.1, 0.01, 0.0)


def tensors(rows=6, features=8, classes=11, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(rows, features, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(classes, features, generator=generator).to(dtype).requires_grad_()
    target = torch.randint(0, classes, (rows,), generator=generator)
    return h, weight, target


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_torchs_own_checks_of_an_operator_pass(reduction):
    h, weight, target = tensors()
    bias = torch.randn(11, requires_grad=True)
    torch.library.opcheck(forward_op, (h, weight, target, bias, None, *SETTINGS, reduction, True, True, True))
    made = forward_op(h, weight, target, bias, None, *SETTINGS, reduction, True, True, True)
    grad = torch.ones_like(made[0]).detach()
    plain = [t.detach() for t in (h, weight)]
    arguments = (grad, *plain, target, bias.detach(), None, *(t.detach() for t in made[1:]))
    torch.library.opcheck(backward_op, (*arguments, *SETTINGS, reduction, True, True, True))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_gradient_is_that_of_the_loss_by_differences(reduction):
    h, weight, target = tensors(dtype=torch.float64)
    target[2] = -100
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True)
    class_weight = torch.rand(11, dtype=torch.float64)

    def loss(h, weight, bias):
        return linear_cross_entropy(
            h,
            weight,
            target,
            bias=bias,
            class_weight=class_weight,
            reduction=reduction,
            label_smoothing=0.2,
            z_loss=0.03,
            softcap=2.0,
        )

    assert torch.autograd.gradcheck(loss, (h, weight, bias))


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_compiled_without_a_break_it_is_what_it_is_eager(reduction):
    h, weight, target = tensors()
    compiled = torch.compile(linear_cross_entropy, fullgraph=True, backend="aot_eager")
    found = []
    for call in (linear_cross_entropy, compiled):
        loss = call(h, weight, target, reduction=reduction, label_smoothing=0.1)
        found.append([loss, *torch.autograd.grad(loss.sum() * 3, (h, weight))])
    for eager, traced in zip(*found, strict=True):
        torch.testing.assert_close(traced, eager)
    assert found[1][1].abs().max() > 0


def test_a_module_that_uses_it_is_exported():
    h, weight, target = (t.detach() for t in tensors())
    exported = torch.export.export(LinearCrossEntropyLoss(z_loss=0.1), (h, weight, target))
    assert "linear_cross_entropy" in str(exported.graph)
    expected = F.cross_entropy(h @ weight.T, target) + 0.1 * torch.logsumexp(h @ weight.T, 1).square().mean()
    torch.testing.assert_close(exported.module()(h, weight, target), expected)


def test_under_autocast_the_factors_are_rounded_and_the_gradients_are_not():
    h, weight, target = tensors()
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(h, weight, target)
    rounded = [t.detach().bfloat16().float() for t in (h, weight)]
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, F.cross_entropy(rounded[0] @ rounded[1].T, target))
    assert {g.dtype for g in torch.autograd.grad(loss, (h, weight))} == {torch.float32}


def test_a_gradient_of_a_gradient_is_refused_in_a_sentence_eager_and_through_the_operator():
    h, weight, target = tensors()
    operator = forward_op(h, weight, target, None, None, *SETTINGS, "mean", True, True, False)[0]
    for loss in (linear_cross_entropy(h, weight, target), operator):
        first, _ = torch.autograd.grad(loss, (h, weight), create_graph=True)
        with pytest.raises(LabError, match="has a gradient and no second one"):
            first.square().sum().backward()


def test_a_graph_that_is_kept_gives_the_same_gradient_again_and_grad_accumulates():
    h, weight, target = tensors()
    loss = linear_cross_entropy(h, weight, target)
    loss.backward(retain_graph=True)
    once = h.grad.clone(), weight.grad.clone()
    loss.backward()
    torch.testing.assert_close(h.grad, 2 * once[0])
    torch.testing.assert_close(weight.grad, 2 * once[1])


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_gradient_of_one_factor_alone_and_none_at_all(reduction):
    h, weight, target = tensors()
    both = torch.autograd.grad(linear_cross_entropy(h, weight, target, reduction=reduction).sum(), (h, weight))
    for number, factors in enumerate(((h, weight.detach()), (h.detach(), weight))):
        loss = linear_cross_entropy(*factors, target, reduction=reduction).sum()
        (alone,) = torch.autograd.grad(loss, factors[number])
        torch.testing.assert_close(alone, both[number])
    with torch.no_grad():
        assert not linear_cross_entropy(h, weight, target).requires_grad
    assert not linear_cross_entropy(h.detach(), weight.detach(), target).requires_grad


def test_a_gradient_of_the_bias_alone_is_the_sum_of_the_logits_gradients():
    h, weight, target = (t.detach() for t in tensors())
    bias = torch.randn(11, requires_grad=True)
    (found,) = torch.autograd.grad(linear_cross_entropy(h, weight, target, bias=bias, reduction="sum"), bias)
    logits = (h @ weight.T + bias).detach()
    torch.testing.assert_close(found, (logits.softmax(1) - F.one_hot(target, 11)).sum(0))


def test_a_transform_of_torch_func_differentiates_it():
    h, weight, target = (t.detach() for t in tensors())
    found = torch.func.grad(lambda w: linear_cross_entropy(h, w, target))(weight)
    expected = torch.func.grad(lambda w: F.cross_entropy(h @ w.T, target))(weight)
    torch.testing.assert_close(found, expected)


def test_which_says_the_path_and_why_and_takes_the_calls_arguments():
    h, weight, _ = tensors()
    path = which(h, weight, reduction="none", ignore_index=3)
    assert path.name == "chunked"
    assert "cpu" in path.reason


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reduction": "median"}, "reduces by mean, sum, none, not by 'median'"),
        ({"label_smoothing": 1.5}, "between 0 and 1, and is 1.5"),
        ({"z_loss": -1.0}, "at least 0, and is -1.0"),
        ({"softcap": 0.0}, "above 0, or None, and is 0.0"),
        ({"h": torch.zeros(6, 7)}, r"not h \(6, 7\) and weight \(11, 8\)"),
        ({"weight": torch.zeros(0, 8)}, "at least one row"),
        ({"target": torch.zeros(6)}, "so integers, and is torch.float32"),
        ({"target": torch.zeros(5, dtype=torch.long)}, r"shape \(6,\), not \(5,\)"),
        ({"target": torch.full((6,), 11)}, "target 11 is no class: there are 11"),
        ({"target": torch.full((6,), -1)}, "target -1 is no class"),
        ({"bias": torch.zeros(12)}, "bias has one number for each of 11 classes"),
        ({"class_weight": torch.zeros(11, dtype=torch.long)}, "class_weight is torch.int64"),
        ({"h": torch.zeros(6, 8, device="meta")}, "on one device, not on cpu, meta"),
    ],
)
def test_what_fits_no_loss_is_refused_in_one_sentence(change, says):
    h, weight, target = tensors()
    arguments = {"h": h, "weight": weight, "target": target} | change
    with pytest.raises(LabError, match=says) as caught:
        linear_cross_entropy(**arguments)
    assert str(caught.value).count("\n") == 0


def test_the_module_is_the_function_and_moves_its_class_weights():
    h, weight, target = tensors()
    class_weight = torch.rand(11)
    module = LinearCrossEntropyLoss(class_weight, label_smoothing=0.1, softcap=5.0, reduction="sum")
    assert "class_weight" in module.state_dict()
    assert "label_smoothing=0.1" in repr(module)
    expected = F.cross_entropy(
        5 * torch.tanh(h @ weight.T / 5), target, class_weight, reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(module(h, weight, target), expected)
    with pytest.raises(LabError, match="reduces by"):
        LinearCrossEntropyLoss(reduction="max")
