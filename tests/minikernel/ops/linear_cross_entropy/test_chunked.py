"""The path in torch: right in every way that fast ones were wrong, at any shape, and in a chunk's memory."""

import pytest
import torch
import torch.nn.functional as F
from exact_loss import errors, exact, found
from torch.utils._python_dispatch import TorchDispatchMode

from minikernel import linear_cross_entropy
from minikernel.ops.linear_cross_entropy import chunked
from minikernel.ops.linear_cross_entropy.options import Inputs, Options, Wanted

EPSILON = {torch.float32: 2**-24, torch.bfloat16: 2**-8, torch.float16: 2**-11}  # of one rounding, at most


def drawn(rows, features, classes, dtype=torch.float32, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(rows, features, generator=generator).to(dtype)
    weight = (torch.randn(classes, features, generator=generator) * scale * features**-0.5).to(dtype)
    return h, weight, torch.randint(0, classes, (rows,), generator=generator)


def worst(h, weight, target, upstream=None, **more):
    return max(
        errors(
            found(linear_cross_entropy, h, weight, target, upstream, **more), exact(h, weight, target, upstream, **more)
        )
    )


def test_a_common_offset_of_all_logits_costs_the_loss_no_digits():
    generator = torch.Generator().manual_seed(0)
    # whole numbers, so that no product and no sum is rounded: what is lost, the loss has lost
    h, weight = (torch.randint(-2, 3, shape, generator=generator).float() for shape in ((40, 8), (30, 8)))
    target = torch.randint(0, 30, (40,), generator=generator)
    logits = h @ weight.T + 2.0**20
    naive = (torch.logsumexp(logits, 1) - logits.gather(1, target[:, None])[:, 0]).mean()
    expected = exact(h, weight, target, bias=torch.full((30,), 2.0**20))
    assert abs(naive - expected[0]) / expected[0] > 1e-4
    assert worst(h, weight, target, bias=torch.full((30,), 2.0**20)) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_confident_rows_small_gradient_is_right_and_its_small_loss(dtype):
    h, weight, target = torch.eye(8).to(dtype) * 20, torch.eye(8).to(dtype), torch.arange(8)
    loss, dh, _ = exact(h, weight, target)
    assert loss < 1e-7  # 1 + 1e-8 is 1 in float32
    assert dh.abs().max() < 1e-8
    assert worst(h, weight, target) < EPSILON[dtype] + 1e-6


def test_a_factor_for_each_token_reaches_its_own_token():
    h, weight, target = drawn(50, 12, 33)
    upstream = torch.linspace(-2, 5, 50)
    assert worst(h, weight, target, upstream, reduction="none") < 1e-6


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_second_backward_with_another_factor_is_right_too(reduction):
    h, weight, target = (t.requires_grad_() if t.is_floating_point() else t for t in drawn(20, 6, 9))
    loss = linear_cross_entropy(h, weight, target, reduction=reduction)
    first = torch.autograd.grad(loss, (h, weight), torch.ones_like(loss), retain_graph=True)
    kept = [g.clone() for g in first]
    second = torch.autograd.grad(loss, (h, weight), torch.full_like(loss, -3.0))
    for one, copy, other in zip(first, kept, second, strict=True):
        assert torch.equal(one, copy)
        torch.testing.assert_close(other, -3 * one)


def test_the_result_does_not_hang_on_a_chunks_length(monkeypatch):
    h, weight, target = drawn(130, 10, 40)
    target[:64] = -100  # whole chunks of nothing but ignored tokens, whose mean would count as much as another's
    whole = found(linear_cross_entropy, h, weight, target)
    lengths = set()
    for rows in (1, 7, 64):
        monkeypatch.setattr(chunked, "CPU_BYTES", rows * 40 * 4)
        monkeypatch.setattr(chunked, "PARTS", 1)
        lengths.add(chunked.rows_of_a_chunk(130, 40, 4, True))
        assert max(errors(found(linear_cross_entropy, h, weight, target), [t.double() for t in whole])) < 1e-6
    assert lengths == {1, 7, 64}


def test_the_weights_gradient_is_rounded_to_sixteen_bits_once_and_not_once_a_chunk(monkeypatch):
    h, weight, target = drawn(2048, 8, 16, torch.bfloat16)
    h += 1  # sums that grow, to which a chunk's part would be too small to count
    expected = exact(h, weight, target)
    monkeypatch.setattr(chunked, "CPU_BYTES", 2 * 16 * 4)
    rounded = torch.zeros(16, 8, dtype=torch.bfloat16)
    for start in range(0, 2048, 2):
        part = slice(start, start + 2)
        rounded += (exact(h[part], weight, target[part])[2] / 1024).bfloat16()
    assert errors([rounded], expected[2:])[0] > 10 * 2**-9
    assert errors(found(linear_cross_entropy, h, weight, target)[2:], expected[2:])[0] < 2**-9


def test_the_small_gradients_of_a_wide_flat_softmax_are_all_there():
    h, weight, target = drawn(4, 16, 20000, torch.bfloat16, scale=0.01)
    dweight, expected = found(linear_cross_entropy, h, weight, target)[2], exact(h, weight, target)[2]
    others = torch.ones(20000, dtype=torch.bool)
    others[target] = False
    assert expected[others].abs().max() < 2e-4  # less than a filter of 2^-12 would let through
    assert errors([dweight[others]], [expected[others]])[0] < 2**-8


OPTIONS = {
    "bias": {"bias": torch.linspace(-1, 1, 21)},
    "a class that is masked": {"bias": torch.linspace(-1, 1, 21).masked_fill(torch.arange(21) == 20, -torch.inf)},
    "class weights": {"class_weight": torch.linspace(0, 2, 21)},
    "label smoothing": {"label_smoothing": 0.3},
    "all of the target smoothed": {"label_smoothing": 1.0},
    "z-loss": {"z_loss": 0.1},
    "softcap": {"softcap": 1.5},
    "another class ignored": {"ignore_index": 3},
    "everything": {
        "bias": torch.linspace(-1, 1, 21), "class_weight": torch.linspace(0, 2, 21), "label_smoothing": 0.1,
        "z_loss": 0.02, "softcap": 2.0, "ignore_index": 5,
    },
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_each_option_is_what_it_is_in_float64(options, reduction):
    h, weight, target = drawn(60, 9, 20)
    weight = torch.cat([weight, weight[:1]])
    target[::7] = options.get("ignore_index", -100)
    assert worst(h, weight, target, reduction=reduction, **options) < 2e-6


def test_where_all_is_ignored_the_mean_is_nan_and_the_gradients_are_0_as_torch_has_it():
    h, weight, target = drawn(5, 4, 6)
    target[:] = -100
    loss, dh, dweight = found(linear_cross_entropy, h, weight, target)
    assert loss.isnan()
    assert F.cross_entropy(h @ weight.T, target).isnan()
    assert not dh.any()
    assert not dweight.any()


def test_what_an_ignored_row_holds_of_infinity_reaches_no_gradient():
    h, weight, target = drawn(6, 4, 5)
    h[2], target[2] = torch.inf, -100
    assert found(linear_cross_entropy, h, weight, target)[1][[0, 1, 3, 4, 5]].isfinite().all()
    assert not found(linear_cross_entropy, h, weight, target)[1][2].any()


@pytest.mark.parametrize("classes", [1, 2, 129, 131075])
def test_a_vocabulary_of_any_size_with_its_last_class_wanted(classes):
    h, weight, _ = drawn(3, 16, classes)
    target = torch.tensor([0, classes - 1, classes // 2])
    # sums over all classes, whose rounding grows as its root does
    allowed = (30 + classes**0.5) * 2**-24
    results = found(linear_cross_entropy, h, weight, target, reduction="sum")
    for result, right in zip(results, exact(h, weight, target, reduction="sum"), strict=True):
        assert (result - right).norm() <= allowed * right.norm()


def test_operands_that_are_transposed_broadcast_or_of_two_dtypes():
    h, weight, target = drawn(30, 8, 12)
    expected = exact(h, weight, target)
    strided = h.T.contiguous().T, weight.T.contiguous().T
    assert max(errors(found(linear_cross_entropy, *strided, target), expected)) < 1e-6
    one = h[:1].expand(30, 8)
    assert worst(one, weight, target) < 1e-6
    mixed = found(linear_cross_entropy, h.bfloat16(), weight, target)
    assert (mixed[1].dtype, mixed[2].dtype) == (torch.bfloat16, torch.float32)
    assert errors(mixed[2:], exact(h.bfloat16(), weight, target)[2:])[0] < 1e-6


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
def test_targets_of_other_integers_ignore_what_they_cannot_hold(dtype):
    h, weight, _ = drawn(3, 4, 200)
    target = torch.tensor([156, 0, 199])  # 156 is -100 in eight bits
    narrow = linear_cross_entropy(h, weight, target.to(dtype), reduction="none")
    torch.testing.assert_close(narrow, F.cross_entropy(h @ weight.T, target, reduction="none"))


def test_a_batch_of_sequences_and_a_weight_that_is_tied():
    table = torch.randn(11, 6, requires_grad=True)
    ids = torch.arange(8).reshape(2, 4)
    loss = linear_cross_entropy(F.embedding(ids, table), table, ids + 1)
    (tied,) = torch.autograd.grad(loss, table)
    plain = F.cross_entropy(F.embedding(ids, table).reshape(8, 6) @ table.T, (ids + 1).reshape(8))
    torch.testing.assert_close(tied, torch.autograd.grad(plain, table)[0])
    assert linear_cross_entropy(F.embedding(ids, table), table, ids, reduction="none").shape == (2, 4)


def test_no_tokens_at_all():
    h, weight, target = torch.zeros(0, 4), torch.randn(5, 4), torch.zeros(0, dtype=torch.long)
    loss, _, dweight = found(linear_cross_entropy, h, weight, target, reduction="sum")
    assert loss == 0
    assert not dweight.any()


def test_five_hundred_random_shapes_against_float64():
    generator = torch.Generator().manual_seed(46)

    def chosen(*values):
        return values[int(torch.randint(0, len(values), (), generator=generator))]

    for number in range(500):
        rows, features, classes = (int(2 ** (torch.rand((), generator=generator) * n)) for n in (8, 7, 9))
        classes += 1  # of one alone the gradient is nothing but rounding
        dtype = chosen(torch.float32, torch.bfloat16, torch.float16)
        h, weight, target = drawn(rows, features, classes, dtype, number, scale=chosen(0.1, 1.0, 4.0))
        target[torch.rand(rows, generator=generator) < 0.1] = -100
        target[0] = classes - 1
        options = {"label_smoothing": chosen(0.0, 0.1), "z_loss": chosen(0.0, 0.01), "softcap": chosen(None, 3.0)}
        options["reduction"] = chosen("mean", "sum", "none")
        if chosen(True, False):
            options["bias"] = torch.randn(classes, generator=generator).to(dtype)
        if chosen(True, False):
            options["class_weight"] = torch.rand(classes, generator=generator) + 0.1
        results, expected = (
            found(linear_cross_entropy, h, weight, target, **options),
            exact(h, weight, target, **options),
        )
        for result, right in zip(results, expected, strict=True):
            # float32's sums, of logits that cancel too, one rounding to dtype, what float16 cannot hold below 2^-24
            rounding = EPSILON[result.dtype] if result.dtype != torch.float32 else 0
            tiny = (2**-25 if result.dtype == torch.float16 else 1e-8) * result.numel() ** 0.5
            apart = float((result.double() - right).norm())
            allowed = (1e-5 + rounding) * float(right.norm()) + tiny
            assert apart <= allowed, (number, rows, features, classes, dtype, options, apart / allowed)


@pytest.mark.parametrize(("rows", "features", "classes", "saved"), [(2048, 64, 600, 10), (512, 32, 8192, 10)])
def test_memory_above_the_inputs_is_a_tenth_of_eagers(rows, features, classes, saved):
    h, weight, target = drawn(rows, features, classes)
    h.requires_grad_(), weight.requires_grad_()
    eager = peak_of(lambda: torch.autograd.grad(F.cross_entropy(h @ weight.T, target), (h, weight)))
    ours = peak_of(lambda: torch.autograd.grad(linear_cross_entropy(h, weight, target), (h, weight)))
    assert eager >= 3 * rows * classes * 4
    assert ours * saved <= eager


def peak_of(call):
    """The most bytes that torch held at once during a call, beyond what it held before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    held = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


class Calls(TorchDispatchMode):
    """Counts the operations of torch, which take a CPU as long as some rows do."""

    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += not function.is_view
        return function(*args, **(kwargs or {}))


def test_what_a_chunk_adds_is_few_calls_of_torch(monkeypatch):
    h, weight, target = drawn(64, 8, 40)
    numbers = []
    for rows in (32, 4):
        monkeypatch.setattr(chunked, "CPU_BYTES", rows * 40 * 4)
        monkeypatch.setattr(chunked, "PARTS", 1)
        with Calls() as calls:
            chunked.run(Inputs(h, weight, target), Options(), Wanted(h=True, weight=True))
        numbers.append(calls.number)
    # three products and twelve passes; what follows of a row from its target and its sums alone is made for all at once
    assert 10 < (numbers[1] - numbers[0]) / (64 / 4 - 64 / 32) <= 20
