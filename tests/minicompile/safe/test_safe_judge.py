"""What counts as proof: gradients of coarse arithmetic have direction and length, and something must be compared."""

import logging
from types import SimpleNamespace

import pytest
import torch
from safe_models import MLP, features, lying
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from minicompile import CompileConfig, compile_report, maybe_compile
from minicompile.safe.smoketest.judge import Judge
from minicompile.safe.smoketest.outputs import numbers_of
from minicompile.safe.smoketest.steps import Step
from minicompile.safe.smoketest.steps import Subject as Trained

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger(__name__)


def report_of(model, batch, backend="aot_eager", **more):
    maybe_compile(model, CompileConfig(enabled=True, backend=backend), logger, batch, **more)
    return compile_report(model)


def scaling_gradients(factor: float):
    """A backend whose backward pass is off by a factor."""

    def scale(graph_module, example_inputs):
        def run(arguments):
            return [None if value is None else value * factor for value in graph_module(*arguments)]

        run._boxed_call = True
        return run

    return aot_autograd(fw_compiler=lambda graph_module, example_inputs: graph_module, bw_compiler=scale)


class Deep(nn.Module):
    """Four layers with norms, in which bfloat16 loses what it loses in a real model."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(part for _ in range(4) for part in (nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU())), nn.Linear(64, 64)
        )

    def forward(self, x):
        return self.layers(x)


def half_batch(dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(16, 64, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize(
    ("dtype", "factor"),
    [*((torch.bfloat16, factor) for factor in (0.0, 0.7, 1.5, -1.0)), (torch.float16, 0.7), (torch.float16, 1.5)],
)
def test_a_gradient_of_another_length_is_wrong_in_sixteen_bits_too(place, dtype, factor):
    torch.manual_seed(0)
    report = report_of(Deep().to(dtype), half_batch(dtype), scaling_gradients(factor))
    assert (report.compiled, report.stage) == (False, "numerics"), report.differences


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_tenth_shows_against_eager_s_own_rounding(factor):
    torch.manual_seed(0)
    report = report_of(Deep().bfloat16(), half_batch(torch.bfloat16), scaling_gradients(factor))
    assert report.stage == "numerics", report.differences


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_honest_sixteen_bits_pass(place, dtype):
    torch.manual_seed(0)
    for backend in ("aot_eager", scaling_gradients(1.0)):
        torch.compiler.reset()
        report = report_of(Deep().to(dtype), half_batch(dtype), backend)
        assert report.compiled, report.reason


@pytest.mark.slow
def test_inductor_s_sixteen_bits_pass():
    torch.manual_seed(0)
    report = report_of(Deep().bfloat16(), half_batch(torch.bfloat16), "inductor")
    assert report.compiled, report.reason


def test_autocast_is_judged_the_same():
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        assert report_of(Deep(), half_batch(torch.float32)).compiled
        torch.compiler.reset()
        assert report_of(Deep(), half_batch(torch.float32), scaling_gradients(0.5)).stage == "numerics"


class Wrapped(nn.Module):
    """Returns its numbers in something else than a tensor."""

    def __init__(self, wrap):
        super().__init__()
        self.linear, self.wrap = nn.Linear(8, 4), wrap

    def forward(self, x):
        return self.wrap(self.linear(x))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: SimpleNamespace(logits=y),
        lambda y: torch.distributions.Normal(y, 1.0, validate_args=False),
        lambda y: y.sum().item(),
    ],
    ids=["namespace", "distribution", "float"],
)
def test_numbers_are_found_in_any_output(place, wrap):
    model = Wrapped(wrap).eval().requires_grad_(False)
    assert report_of(model, features()).compiled
    torch.compiler.reset()
    assert report_of(Wrapped(wrap).eval().requires_grad_(False), features(), lying).stage == "numerics"


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (Wrapped(lambda y: iter([y])), features()),
        (Wrapped(lambda y: "done"), features()),
        (MLP(), features()[:0]),
        (MLP(), torch.full((3, 8), float("nan"))),
        (MLP(), torch.full((3, 8), float("inf"))),
    ],
    ids=["iterator", "text", "no rows", "NaN", "infinity"],
)
def test_nothing_compared_is_no_proof(place, model, batch):
    for backend in ("aot_eager", lying):
        torch.compiler.reset()
        report = report_of(model.eval().requires_grad_(False), batch, backend)
        assert not report.compiled
        assert report.failure["code"] in ("nothing_compared", "not_finite", "too_far")


def test_training_on_no_rows_is_no_proof_either():
    report = report_of(MLP(), features()[:0], lying)
    assert not report.compiled


def test_names_say_where_a_number_sits():
    value = {"a": [torch.ones(1), 2], "b": SimpleNamespace(c=(True, None, "text"))}
    assert {name: tensor.tolist() for name, tensor in numbers_of(value)} == {
        "output['a'][0]": [1.0],
        "output['a'][1]": 2,
        "output['b'].c[0]": True,
    }


def test_a_model_in_eval_that_is_given_a_loss_trains():
    batch = torch.ones(2, 3)
    assert Trained(nn.Linear(3, 1).eval(), batch, None, lambda output: output.sum()).trains
    assert not Trained(nn.Linear(3, 1).eval(), batch, None, None).trains


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_gradient_of_one_side_only_is_said_to_be(lacking):
    steps = [Step({"output": torch.ones(2)}, None, {"weight": torch.ones(2)}, {}) for _ in range(2)]
    steps[lacking].gradients.clear()
    wrong = Judge(nn.Linear(2, 2), steps[1]).difference(*steps)
    assert (wrong.code, wrong.fields["tensor"]) == ("one_side_only", "weight")
