"""What float32 explains: a gradient that is zero by cancellation is noise, and another compile's noise is no fault."""

import copy
import gc
import logging
import weakref

import pytest
import torch
from safe_models import FAST, BatchNorm, features, fingerprint, lying
from torch import nn

from minicompile import CompileConfig, compile_report, maybe_compile
from minicompile.safe.smoketest.judge import Judge
from minicompile.safe.smoketest.outputs import Step
from minicompile.safe.smoketest.steps import Subject
from minicompile.torch_private.dynamo import backend_of_aot

pytestmark = [pytest.mark.usefixtures("fresh_compiler")]
logger = logging.getLogger(__name__)
LINEAR_BIAS, NORM_BIAS = 0, 2  # among the gradients of four numbers of a `BatchNorm`
NOISE = (3e-6, LINEAR_BIAS)  # twice the tolerance, and about as much as eager is off
OTHER_SUMS = "aot_eager_decomp_partition"  # takes a norm apart, and so sums in another order


def kept(graph_module, example_inputs):
    return graph_module


def adding(*amounts: tuple[float, int]):
    """A backend that adds an amount to one gradient of four numbers: a pair for each step, the last for all others."""
    left = list(amounts)

    def off(graph_module, example_inputs):
        def run(arguments):
            amount, which = left.pop(0) if left[1:] else left[0]
            gradients = list(graph_module(*arguments))
            short = [n for n, one in enumerate(gradients) if one is not None and one.shape == (4,)]
            gradients[short[which]] = gradients[short[which]] + amount
            return gradients

        run._boxed_call = True
        return run

    return backend_of_aot(kept, off)


def normed() -> BatchNorm:
    torch.manual_seed(1)
    return BatchNorm()


def report_of(model, backend, batch=None, optimizer=None, **fields):
    given = features() if batch is None else batch
    maybe_compile(model, CompileConfig(enabled=True, backend=backend, **fields), logger, given, optimizer=optimizer)
    return compile_report(model)


@pytest.mark.parametrize("backend", [OTHER_SUMS, adding(NOISE)], ids=["other sums", "an amount"])
def test_the_noise_of_a_bias_before_a_norm_is_no_fault(place, backend):
    report = report_of(normed(), backend)
    assert report.compiled, report.reason
    assert report.differences["gradient"] > report.tolerance * 10  # it was too far, and explained


@pytest.mark.parametrize(
    ("amount", "which", "most"),
    [(6e-4, NORM_BIAS, 2e-3), (5e-4, LINEAR_BIAS, 0.5)],
    ids=["as little of a bias that counts", "more than noise"],
)
def test_a_gradient_that_rounding_does_not_explain_is_wrong(place, amount, which, most):
    report = report_of(normed(), adding((amount, which)))
    assert report.failure["code"] == "too_far", report.stage
    assert 1e-3 < report.failure["relative"] < most


class Centred(nn.Module):
    """Its numbers are whole multiples of small powers of two, so that nothing rounds until a parameter is another."""

    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(1, 4), nn.Parameter(torch.tensor(1.0))
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[1.0], [2.0], [-1.0], [0.5]]))
            self.linear.bias.zero_()

    def forward(self, x):
        y = self.linear(x)
        return (y - y.mean(0)) * self.scale


def test_noise_that_eager_is_without_by_luck_is_no_fault_either(place):
    batch = 1 + torch.tensor([0, 3, 1, 7, 2, 12, 5, 2]).reshape(8, 1) / 2048
    model = Centred()
    model(batch).square().mean().backward()
    assert not model.linear.bias.grad.any()
    report = report_of(model, adding((5e-11, LINEAR_BIAS)), batch, smoketest_steps=1)
    assert report.compiled, report.reason
    assert report.differences["gradient"] > 1e-3


@pytest.mark.parametrize(
    ("eager", "finer", "allowed"),
    [
        (1e-7, 1e-16, 32 * 1e-5),  # zero by cancellation: so many times eager's noise, beside a hundredth of the others
        (1e-7, 1e-13, 32 * 2**29 * 1e-11),  # the same, where float64 shows more noise than eager
        (1e-7, 1e-7, 0),  # small, and the same in both
        (1e-12, 1e-12, 0),
        (1e-7, 2e-7, 4 * 1e-5),  # small, and off
    ],
)
def test_what_is_noise_and_how_far_it_may_be(eager, finer, allowed):
    signs = torch.tensor([1.0, -0.5, 0.2, -1.0])
    steps = [
        Step({}, None, {"small": size * signs.to(dtype), "other": torch.ones(400, dtype=dtype)}, {})
        for size, dtype in ((eager, torch.float32), (finer, torch.float64))
    ]
    small = ("gradient", "small")
    found = Judge(nn.Linear(2, 2), steps[0]).explained([small], *steps)
    assert found[small] == pytest.approx(allowed, rel=0.01, abs=1e-10)


@pytest.mark.slow
def test_a_convolution_before_a_norm_is_right_under_inductor(place):
    torch.manual_seed(0)
    first, second = (nn.Sequential(nn.Conv2d(n, 8, 3), nn.BatchNorm2d(8), nn.ReLU()) for n in (3, 8))
    model = nn.Sequential(first, second, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    batch = torch.randn(8, 3, 16, 16) + 0.5
    report = report_of(model, "inductor", batch, options=FAST)
    assert report.compiled, report.reason


class Noisy(nn.Linear):
    """Draws other numbers in float64: their distance from float32's is no rounding."""

    def forward(self, x):
        y = super().forward(x)
        return y + torch.randn_like(y) / 2


def test_other_random_numbers_explain_nothing(place):
    report = report_of(Noisy(8, 4), lying)
    assert report.failure["code"] == "too_far", report.stage


def test_a_step_that_is_explained_excuses_no_later_one(place):
    report = report_of(normed(), adding(NOISE, NOISE, (6e-4, NORM_BIAS)))
    assert report.failure["code"] == "too_far", report.stage


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("place", ["in place"], indirect=True)
def test_a_gpu_s_random_numbers_explain_nothing(place, there, monkeypatch):
    class Dropped(BatchNorm):
        def forward(self, x):
            return nn.functional.dropout(super().forward(x), 0.1)

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: there)  # there, float64 draws others
    torch.manual_seed(1)
    report = report_of(Dropped(), adding(NOISE))
    assert report.compiled != there, report.reason


@pytest.fixture
def copies(monkeypatch):
    """Every copy of a subject's model that was made, as far as it is still there."""
    made = []

    def copied(subject):
        other = original(subject)
        made.append(weakref.ref(other.model))
        return other

    original = Subject.copy
    monkeypatch.setattr(Subject, "copy", copied)
    return made


@pytest.mark.parametrize("place", ["in place"], indirect=True)
def test_in_place_the_explanation_leaves_no_trace(place, copies):
    model, batch = normed(), features()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)
    model(batch).square().mean().backward()
    optimizer.step()
    before, drawn = copy.deepcopy(fingerprint(model, optimizer)), torch.get_rng_state()
    gc.disable()
    try:
        report = report_of(model, adding(NOISE), batch, optimizer)
        assert (report.compiled, len(copies)) == (True, 1), report.reason
        assert copies[0]() is None  # freed without the collector's help
    finally:
        gc.enable()
    after = fingerprint(model, optimizer)
    assert {key for key in before if before[key] != after[key]} == {"attributes"}  # the compiled call
    assert torch.equal(batch, features())
    assert torch.equal(torch.get_rng_state(), drawn)


@pytest.mark.parametrize("place", ["in place"], indirect=True)
def test_in_place_what_cannot_be_copied_is_not_explained(place, monkeypatch):
    def full(subject):
        raise torch.OutOfMemoryError("no room for a copy")

    monkeypatch.setattr(Subject, "copy", full)
    model = normed()
    before = fingerprint(model)
    assert report_of(model, OTHER_SUMS).failure["code"] == "too_far"
    assert fingerprint(model) == before
