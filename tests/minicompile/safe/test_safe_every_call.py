"""Each call of a smoketest is compared, in all that it returns and leaves behind; a lie has nowhere to hide."""

import array
import logging

import numpy as np
import pytest
import torch
from torch import nn

from minicompile import CompileConfig, compile_report, maybe_compile
from minicompile.safe import installation
from minicompile.safe.compile_benchmark import benchmark
from minicompile.safe.smoketest.numerics import TOLERANCES, largest_relative

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger(__name__)


def rows():
    return torch.linspace(-1, 1, 12).reshape(3, 4)


def report_of(model, batch, backend="eager", steps=1, **more):
    maybe_compile(model, CompileConfig(enabled=True, backend=backend, smoketest_steps=steps), logger, batch, **more)
    return compile_report(model)


@pytest.fixture
def lies(monkeypatch):
    """Have every compiled call go through `wrong(call, number of the call, *arguments)`."""

    compile_really = installation.dynamo_internals.torch_compile

    def lie(wrong):
        def compiled(function, *arguments, **more):
            calls = []

            def call(*given, **named):
                if torch._dynamo.eval_frame._stance.stance == "force_eager":
                    return function(*given, **named)
                calls.append(1)
                return wrong(lambda: real(*given, **named), len(calls), *given)

            real = compile_really(function, *arguments, **more)
            return call

        monkeypatch.setattr(installation.dynamo_internals, "torch_compile", compiled)

    return lie


class Plain(nn.Module):
    def __init__(self, then=None, **kept):
        super().__init__()
        self.layer, self.then = nn.Linear(4, 4), then or (lambda module, y: y)
        vars(self).update(kept)

    def forward(self, x):
        return self.then(self, self.layer(x))


@pytest.mark.parametrize("number", [1, 2])
def test_a_lie_of_one_call_is_found_whichever_it_is(lies, number):
    lies(lambda call, now, *_: call() * (2 if now == number else 1))
    assert "output is off" in report_of(Plain(), rows(), steps=3).reason


def test_a_frozen_parameter_shows_once_training_has_changed_it(place):
    def freezes(graph_module, example_inputs):
        held = [one.detach().clone() if isinstance(one, nn.Parameter) else None for one in example_inputs]
        as_traced = lambda now, then: now if then is None else now - now.detach() + then  # noqa: E731
        return lambda *given: graph_module(*map(as_traced, given, held))

    assert "output is off" in report_of(Plain(), rows(), freezes, steps=2).reason


def masked(module, y):
    return y + (torch.arange(4) == 3) * -1e4


def test_a_wrong_number_does_not_hide_behind_a_large_one(lies):
    report = report_of(Plain(masked).eval(), rows())
    assert report.compiled, report.reason
    torch.compiler.reset()
    lies(lambda call, *_: call() * torch.tensor([1.5, 1.5, 1.5, 1.0]))
    assert "output is off" in report_of(Plain(masked).eval(), rows()).reason


def test_what_is_left_of_large_numbers_where_they_cancel_may_be_rounding():
    large, left = torch.linspace(2e4, 4e4, 8), torch.linspace(1e-3, 1e-2, 8)
    allowed = TOLERANCES["float32"]
    both = torch.cat([large, left])
    assert largest_relative(torch.cat([large, left + 2e-3]), both, 0.0, allowed) < allowed
    assert largest_relative(torch.cat([large, left + 1e-1]), both, 0.0, allowed) > allowed


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda: torch.set_autocast_enabled("cpu", True), "autocast on the CPU"),
        (lambda: torch.use_deterministic_algorithms(True), "whether algorithms are deterministic"),
    ],
)
def test_a_setting_of_torch_that_eager_leaves_alone(lies, change, names):
    lies(lambda call, *_: (call(), change())[0])
    assert names in report_of(Plain().eval(), rows()).reason


def test_an_object_that_is_returned_is_the_one_that_eager_returns(lies):
    returns = lambda module, y: (y, module.cache)  # noqa: E731
    report = report_of(Plain(returns, cache={"k": 1}).eval(), rows())
    assert report.compiled, report.reason
    torch.compiler.reset()
    lies(lambda call, *_: (lambda y, cache: (y, dict(cache)))(*call()))
    assert "output[1] as an object" in report_of(Plain(returns, cache={"k": 1}).eval(), rows()).reason


def test_an_output_that_is_cut_off_from_its_graph(lies):
    lies(lambda call, *_: (lambda y, z: (y, z.detach().requires_grad_()))(*call()))
    model = Plain(lambda module, y: (y, y * 2))
    assert "requires_grad of output[1]" in report_of(model, rows(), loss_fn=lambda output: output[0].sum()).reason


def test_gradients_through_what_the_loss_does_not_use_are_named():
    def own_loss(module, y):
        return {"loss": y.square().mean(), "logits": y * 2}

    report = report_of(Plain(own_loss), rows())
    assert report.compiled, report.reason
    assert report.not_compared == ["gradient of output['logits'], from which the loss does not come"]


@torch.compiler.disable
def unseeded():
    return torch.from_numpy(np.random.default_rng().standard_normal(4)).float()


def test_what_eager_computes_otherwise_each_time_is_named_or_refused_in_a_true_sentence():
    with torch.no_grad():
        report = report_of(Plain(lambda module, y: (y, unseeded())).eval(), rows())
        assert report.compiled, report.reason
        assert report.not_compared == ["output[1]"]
        torch.compiler.reset()
        report = report_of(Plain(lambda module, y: y + unseeded()).eval(), rows())
    assert report.failure == {"code": "nothing_repeats"}


def mark(x):
    x.mark = 3


@pytest.mark.parametrize(
    ("kept", "change", "names"),
    [
        (None, lambda kept, x: mark(x), "batch.mark"),
        (array.array("d", [1.0, 2.0]), lambda kept, x: kept.reverse(), "attribute kept"),
        (np.array(["a", "b"]), lambda kept, x: kept.sort() or kept.put(0, "z"), "attribute kept"),
        (None, lambda kept, x: x.as_strided((1,), (1,), 4).fill_(7.0), "batch"),
    ],
)
def test_what_is_hard_to_see_is_seen(lies, kept, change, names):
    model = Plain(kept=kept).eval()
    lies(lambda call, now, x: (call(), change(kept, x))[0])
    with torch.no_grad():
        assert names in report_of(model, torch.zeros(3, 8)[:, :4]).reason


def test_an_iterator_is_not_read_and_named():
    assert "attribute kept" in report_of(Plain(kept=iter([1, 2])), rows()).not_compared


class Draws(Plain):
    def forward(self, x, generator):
        return self.layer(x) + torch.rand(4, generator=generator)


class Counts(nn.Module):
    calls = 0

    def forward(self, output):
        self.calls += 1
        return output.square().mean()


def test_a_benchmark_leaves_the_batch_and_the_loss_as_they_were():
    generator, loss = torch.Generator().manual_seed(3), Counts()
    state = generator.get_state()
    cfg = CompileConfig(enabled=True, backend="eager", smoketest_steps=1)
    benchmark(Draws(), cfg, (rows(), generator), loss_fn=loss, steps=1, warmup=0)
    assert torch.equal(generator.get_state(), state)
    assert loss.calls == 0


def test_a_benchmark_hands_over_memory_that_batch_and_model_share():
    class Cached(Plain):
        def forward(self, x, cache):
            assert cache.data_ptr() == self.cache.data_ptr()
            return self.layer(x) + cache

    model = Cached(cache=torch.zeros(3, 4))
    cfg = CompileConfig(enabled=True, backend="eager", smoketest_steps=1)
    assert benchmark(model.eval(), cfg, (rows(), model.cache), steps=1, warmup=0).compiled is not None
