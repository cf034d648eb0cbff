"""The smoketest: True when a compiled model trains as the eager one, False when it does not, and no trace left."""

import random

import pytest
import torch
from safe_models import (
    MLP,
    BatchNorm,
    build,
    dictionary,
    failing,
    failing_backward,
    features,
    fingerprint,
    ids,
    lying,
    lying_backward,
)
from torch import nn
from torch.nn import functional as F

from minicompile import CompileSmoketest
from minicompile.safe.failures import WrongNumbers
from minicompile.safe.smoketest.numerics import compare, comparison_dtype
from minicompile.state.batches import own_loss, split_batch
from minilab import LabError

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def mean_square(output):
    return output.square().mean()


@pytest.mark.parametrize(
    ("backend", "passes"),
    [
        ("eager", True),
        ("aot_eager", True),
        (failing, False),
        (failing_backward, False),
        (lying, False),
        (lying_backward, False),
    ],
)
def test_verdict_on_a_torch_compile_wrapper(backend, passes):
    model = MLP()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend=backend)
    before = fingerprint(model, optimizer)
    assert CompileSmoketest(steps=3).run(compiled, features(), optimizer, mean_square) is passes
    assert fingerprint(model, optimizer) == before


def test_a_backward_that_raises_is_a_failure():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            raise RuntimeError("no gradient today")

    class Model(nn.Linear):
        def forward(self, x):
            return Broken.apply(super().forward(x))

    model = Model(8, 4)
    model.compile(backend="eager")
    before = fingerprint(model)
    smoketest = CompileSmoketest()
    assert smoketest.run(model, features(), None, mean_square) is False
    assert "no gradient today" in str(smoketest.outcome.exception)
    assert fingerprint(model) == before


def test_an_eager_model_passes_as_its_own_reference():
    assert CompileSmoketest(steps=1).run(MLP(), features()) is True


def test_a_model_compiled_in_place_is_tried_as_compiled():
    model = MLP()
    model.compile(backend=lying)
    smoketest = CompileSmoketest()
    assert smoketest.run(model, features()) is False
    assert smoketest.outcome.stage == "numerics"


def test_a_model_that_recompiles_on_the_same_batch_fails():
    class Counting(nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) * self.calls

    smoketest = CompileSmoketest()
    model = Counting(8, 4)
    assert smoketest.run(torch.compile(model, backend="eager"), features()) is False
    assert smoketest.outcome.stage == "recompile"
    assert model.calls == 0


@pytest.mark.parametrize("optimizer", [None, torch.optim.SGD])
def test_a_compile_that_freezes_what_training_changes_is_a_failure(optimizer):
    def freezing(graph_module, example_inputs):
        seen = []

        def run(*arguments):
            seen[:] = seen or [argument.detach().clone() for argument in arguments]
            pairs = zip(arguments, seen, strict=True)
            # The value of the first call, and a gradient for the parameter all the same.
            return graph_module(*(now + (then - now).detach() if now.requires_grad else now for now, then in pairs))

        return run

    torch.manual_seed(0)
    model = MLP()
    optimizer = optimizer and optimizer(model.parameters(), lr=0.01)
    for steps, passes in ((1, True), (2, False), (3, False)):  # one step has nothing to compare with
        torch.compiler.reset()
        smoketest = CompileSmoketest(steps=steps)
        assert smoketest.run(torch.compile(model, backend=freezing), features(), optimizer, mean_square) is passes
        assert passes or smoketest.outcome.stage == "numerics"


def test_a_buffer_that_is_updated_wrongly_is_a_failure():
    class Running(nn.Linear):
        def __init__(self):
            super().__init__(8, 4)
            self.register_buffer("mean", torch.zeros(7))

        def forward(self, x):
            self.mean.lerp_(x.mean().expand(7), 0.1)
            return super().forward(x)

    def wrong(graph_module, example_inputs):
        def run(*arguments):
            output = graph_module(*arguments)
            next(argument for argument in arguments if argument.shape == (7,)).add_(1)
            return output

        return run

    for backend, passes in (("eager", True), (wrong, False)):
        model, smoketest = Running(), CompileSmoketest()
        model.compile(backend=backend)
        assert smoketest.run(model, features(), None, mean_square) is passes
    assert "buffer mean is off" in str(smoketest.outcome.exception)


def test_an_optimizer_that_writes_into_gradients_spoils_no_comparison():
    class Clipping(torch.optim.SGD):
        def step(self):
            for parameter in self.param_groups[0]["params"]:
                parameter.grad.mul_(0.5)
            super().step()

    model = MLP()
    model.compile(backend="eager")
    assert CompileSmoketest().run(model, features(), Clipping(model.parameters(), lr=0.1)) is True


def test_nan_only_where_eager_has_it():
    def poison(graph_module, example_inputs):
        return lambda *arguments: tuple(value * float("nan") for value in graph_module(*arguments))

    class Logs(MLP):
        def forward(self, x):
            return super().forward(x), x.detach().log()

    assert CompileSmoketest().run(torch.compile(MLP(), backend=poison), features()) is False
    assert features().log().isnan().any()
    assert CompileSmoketest().run(torch.compile(Logs(), backend="aot_eager"), features(), None, square_of_first) is True


def square_of_first(output):
    return output[0].square().mean()


def test_gradients_hooks_and_generators_are_restored_after_an_error_in_the_middle():
    model = BatchNorm()
    model(features()).sum().backward()
    model.linear.register_forward_hook(lambda *_: None)
    optimizer = torch.optim.Adam(model.parameters())
    model.compile(backend="eager")
    before, python = fingerprint(model, optimizer), random.getstate()

    def loss(output):
        random.random()
        torch.rand(1)
        raise ValueError("in the loss")

    assert CompileSmoketest().run(model, features(), optimizer, loss) is False
    assert fingerprint(model, optimizer) == before
    assert random.getstate() == python


def test_a_model_that_writes_into_its_batch_spoils_no_step():
    class Greedy(nn.Linear):
        def forward(self, x):
            x.mul_(2)
            return super().forward(x)

    batch = features()
    assert CompileSmoketest().run(torch.compile(Greedy(8, 4), backend="eager"), batch) is True
    assert torch.equal(batch, features())


@pytest.mark.parametrize(
    ("batch", "loss_fn"),
    [
        ((features(), torch.zeros(6, 4)), nn.MSELoss()),
        ((features(), torch.zeros(6, 4)), F.mse_loss),
        ({"x": features(), "target": torch.zeros(6, 4)}, lambda output, batch: F.mse_loss(output, batch["target"])),
        ([features()], lambda output: output.sum()),
    ],
)
def test_losses_take_what_the_model_leaves_over(batch, loss_fn):
    smoketest = CompileSmoketest()
    assert smoketest.run(torch.compile(MLP(), backend="eager"), batch, None, loss_fn) is True, smoketest.outcome
    assert "loss" in smoketest.outcome.differences


def test_a_dictionary_goes_in_by_name_or_whole():
    class Whole(nn.Module):
        def forward(self, batch):
            return batch["input_ids"].float()

    model, _ = build("dict_inputs")
    assert set(split_batch(model, {**dictionary(), "row": ids()})[1]) == {"input_ids", "attention_mask", "labels"}
    arguments, keywords, _ = split_batch(Whole(), dictionary())
    assert list(arguments[0]) == list(dictionary())
    assert not keywords


def test_the_model_s_own_loss_is_found():
    loss = torch.tensor(2.0)
    assert own_loss({"logits": torch.ones(3), "loss": loss}) is loss
    assert own_loss((torch.ones(3), loss)) is loss
    assert own_loss(torch.full((3,), 2.0)).item() == 4.0
    with pytest.raises(LabError, match="no floating-point tensor"):
        own_loss(torch.ones(3, dtype=torch.int64))


def test_an_empty_batch_is_refused_by_a_sentence():
    smoketest = CompileSmoketest()
    assert smoketest.run(MLP(), {}) is False
    assert "the sample batch is empty" in str(smoketest.outcome.exception)


def test_bfloat16_models_are_compared_as_bfloat16():
    smoketest = CompileSmoketest()
    assert smoketest.run(torch.compile(MLP().bfloat16(), backend="aot_eager"), features().bfloat16()) is True
    assert smoketest.outcome.dtype == "bfloat16"


def test_autocast_decides_the_arithmetic():
    with torch.autocast("cpu", torch.bfloat16):
        assert comparison_dtype(MLP(), [features()]) == "bfloat16"
    assert comparison_dtype(MLP(), [features()]) == "float32"
    assert comparison_dtype(MLP().double(), []) == "float64"


@pytest.mark.parametrize(
    ("ours", "reference"),
    [
        (torch.zeros(4), torch.full((4,), 1e-8)),  # all zeros pass no relative comparison
        (torch.ones(4), torch.ones(4, dtype=torch.float64)),
        (torch.ones(4), torch.ones(5)),
        (torch.tensor([1, 2]), torch.tensor([1, 3])),
        (torch.tensor([1.0, float("inf")]), torch.tensor([1.0, float("-inf")])),
        (torch.tensor([1.0, 1.001]), torch.tensor([1.0, 1.0])),
        (torch.full((4,), 1.01e30), torch.full((4,), 1e30)),  # their squares are no float32
        (torch.tensor([1.0, float("inf")]), torch.tensor([1.0, 1.0])),
        (torch.tensor([1.0 + 1.001j]), torch.tensor([1.0 + 1.0j])),
        (torch.tensor([1e-30]), torch.tensor([0.0])),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 1.0])),
        (torch.tensor([2.0, float("nan")]), torch.tensor([1.0, float("nan")])),
    ],
)
def test_compare_refuses(ours, reference):
    with pytest.raises(WrongNumbers, match="wrong"):
        compare(ours, reference, "output", tolerance=1e-4)


def test_compare_allows_rounding_and_cancellation():
    assert compare(torch.tensor([1.0, 1.00001]), torch.ones(2), "output", 1e-4).relative < 1e-4
    for size in (1e30, 1e-30):
        assert compare(torch.full((4,), 1.00001 * size), torch.full((4,), size), "output", 1e-4).relative < 1e-5
    noisy, zero = torch.tensor([3e-9, -2e-9]), torch.tensor([1e-9, 2e-9])
    compare(noisy, zero, "gradient", 1e-4, noise=1e-3)
    with pytest.raises(WrongNumbers):
        compare(noisy, zero, "gradient", 1e-4)


@pytest.mark.parametrize(
    ("loss_fn", "sentence"),
    [
        (lambda output: 3.0, "the loss is of type float; return a tensor of one number"),
        (lambda output: None, "the loss is of type NoneType"),
        (lambda output: output * 2, "the loss has the shape [6, 4] and must be one number"),
        (lambda output: output.detach().sum(), "the loss does not depend on what is trained"),
    ],
)
def test_what_is_no_loss_is_said_in_one_sentence(loss_fn, sentence):
    smoketest = CompileSmoketest()
    assert smoketest.run(torch.compile(MLP(), backend="eager"), features(), None, loss_fn) is False
    assert smoketest.outcome.stage == "eager"
    assert str(smoketest.outcome.exception).startswith(sentence)


@pytest.mark.parametrize(
    ("layout", "backend", "passes"),
    [(torch.jagged, "eager", True), (torch.jagged, lying, False), (torch.strided, "eager", True)],
)
def test_nested_tensors_are_compared_row_by_row(layout, backend, passes):
    batch = torch.nested.nested_tensor([torch.randn(2, 8), torch.randn(3, 8)], layout=layout)
    smoketest = CompileSmoketest()
    assert smoketest.run(torch.compile(nn.Linear(8, 4).eval(), backend=backend), batch) is passes, smoketest.outcome
    assert smoketest.outcome.batch == {"batch[0]": "float32 [2, 8]", "batch[1]": "float32 [3, 8]"}
