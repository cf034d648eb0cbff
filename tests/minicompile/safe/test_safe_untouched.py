"""`maybe_compile` leaves everything as it was, wherever it is kept; in a copy of the process, and in place."""

import collections
import copy
import dataclasses
import gc
import logging
import random
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from safe_models import MLP, features, lying
from torch import nn

from minicompile import CompileConfig, compile_report, maybe_compile, uncompile
from minicompile.safe.smoketest import rewind

pytestmark = pytest.mark.usefixtures("fresh_compiler", "place")
logger = logging.getLogger(__name__)


def attempt(model, batch, *, backend="aot_eager", **more):
    """Put a model through `maybe_compile`; its report."""
    maybe_compile(model, CompileConfig(enabled=True, backend=backend), logger, batch, **more)
    return compile_report(model)


def bits(tensor: torch.Tensor) -> list:
    return tensor.detach().contiguous().view(torch.uint8).tolist()


def test_the_report_says_where_it_ran_and_what_it_was_proven_for(place):
    report = attempt(MLP(), {"x": features()})
    assert report.compiled, report.reason
    assert report.tried_on == {"batch['x']": "float32 [6, 8]"}
    assert report.tried_steps == 3
    assert report.in_place == (None if place == "apart" else "the test asks for it")


def test_a_second_module_that_the_optimizer_trains():
    model, other = MLP(), nn.Linear(4, 4)
    optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=0.1)
    before = [bits(p) for p in other.parameters()]
    report = attempt(model, features(), optimizer=optimizer, loss_fn=lambda output: other(output).square().mean())
    assert report.compiled, report.reason
    assert [bits(p) for p in other.parameters()] == before
    assert all(p.grad is None for p in other.parameters())
    assert not optimizer.state


def test_a_loss_with_parameters_is_no_fault_of_the_compiler():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, output):
            self.calls += 1
            return (self.scale * output).square().mean()

    model, loss = MLP(), Loss()
    optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.5)
    report = attempt(model, features(), optimizer=optimizer, loss_fn=loss)
    assert report.compiled, report.reason
    assert (loss.scale.item(), loss.calls.item(), loss.scale.grad) == (2.0, 0.0, None)


def test_an_average_kept_by_a_hook_of_the_optimizer():
    model = MLP()
    average, updates = copy.deepcopy(model), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def update(*_):
        updates.append(1)
        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
            mean.data.lerp_(parameter.data, 0.5)

    optimizer.register_step_post_hook(update)
    before = [bits(p) for p in average.parameters()]
    assert attempt(model, features(), optimizer=optimizer).compiled
    assert [bits(p) for p in average.parameters()] == before
    assert updates == []


def test_an_optimizer_that_steps_in_the_backward_pass():
    model = MLP()
    optimizers = {p: torch.optim.Adam([p], lr=0.1) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    model(features()).square().mean().backward()
    before = [bits(p) for p in model.parameters()]
    attempt(model, features())
    assert [bits(p) for p in model.parameters()] == before
    assert {optimizer.state[p]["step"].item() for p, optimizer in optimizers.items()} == {1.0}


def test_generators_of_the_model_s_own():
    class Noisy(MLP):
        def __init__(self):
            super().__init__()
            self.torch_noise = torch.Generator().manual_seed(3)
            self.numpy_noise, self.python_noise = np.random.default_rng(3), random.Random(3)

        def forward(self, x):
            noise = self.noise(x)
            return super().forward(x + noise)

        @torch.compiler.disable
        def noise(self, x):
            drawn = self.numpy_noise.random() + self.python_noise.random()
            return torch.randn(x.shape, generator=self.torch_noise) + drawn

    model = Noisy()
    before = model.torch_noise.get_state().tolist(), str(model.numpy_noise.bit_generator.state)
    report = attempt(model, features())
    assert report.compiled, report.reason
    assert (model.torch_noise.get_state().tolist(), str(model.numpy_noise.bit_generator.state)) == before
    assert model.python_noise.random() == random.Random(3).random()


def test_what_a_model_keeps_in_objects_of_its_own():
    class Cache:
        def __init__(self):
            self.rows, self.last = [], None

    class Remembering(MLP):
        def __init__(self):
            super().__init__()
            self.recent = collections.deque([torch.zeros(())], maxlen=2)
            self.pair = (torch.zeros(3), {"deep": [torch.zeros(3)]})
            self.cache = Cache()

        def forward(self, x):
            output = super().forward(x)
            self.note(output.detach())
            return output

        @torch.compiler.disable
        def note(self, output):
            self.recent.append(output.mean())
            self.pair[0].add_(1)
            self.pair[1]["deep"][0].add_(1)
            self.cache.rows.append(1)
            self.cache.last = output

    model = Remembering()
    report = attempt(model, features())
    assert report.compiled, report.reason
    assert [value.item() for value in model.recent] == [0.0]
    assert model.pair[0].tolist() == model.pair[1]["deep"][0].tolist() == [0.0] * 3
    assert (model.cache.rows, model.cache.last) == ([], None)


def test_a_batch_that_the_model_writes_into():
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor

    class Greedy(nn.Linear):
        def forward(self, batch):
            batch.x.mul_(2)
            return super().forward(batch.x)

    batch = Batch(features())
    attempt(Greedy(8, 4), batch)
    assert torch.equal(batch.x, features())


def test_a_graph_of_the_caller_s_from_before_still_has_its_backward_pass():
    model = MLP()
    loss = model(features()).square().mean()
    attempt(model, features(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_buffers_that_take_no_ordinary_write():
    class Odd(MLP):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.eye(4).to_sparse_csr())
            self.register_buffer("coo", torch.eye(4).to_sparse_coo())
            with torch.inference_mode():
                self.register_buffer("scale", torch.ones(4))
            self.register_buffer("wide", torch.ones(1).expand(4))

        def forward(self, x):
            return super().forward(x)

    for backend in ("aot_eager", lying):
        torch.compiler.reset()
        model, draws = Odd(), torch.get_rng_state()
        before = [bits(p) for p in model.parameters()]
        attempt(model, features(), backend=backend)
        assert [bits(p) for p in model.parameters()] == before
        assert torch.equal(torch.get_rng_state(), draws)
        assert torch.equal(model.mask.to_dense(), torch.eye(4))
        assert model.scale.tolist() == [1.0] * 4


def test_models_of_unusual_kinds_are_compiled_or_left_alone_with_a_sentence(place):
    lazy = nn.Sequential(nn.LazyLinear(4))
    assert attempt(lazy, features()).compiled or place == "in place"
    assert type(lazy[0]) is nn.LazyLinear
    torch.compiler.reset()
    model = MLP()
    before = [bits(p) for p in model.parameters()]
    assert attempt(model, features(), optimizer=torch.optim.LBFGS(model.parameters(), max_iter=2)).compiled
    assert [bits(p) for p in model.parameters()] == before
    torch.compiler.reset()
    assert attempt(nn.Linear(8, 4, device="meta"), features().to("meta")).failure["code"] == "nothing_compared"
    torch.compiler.reset()
    assert "TorchScript" in attempt(torch.jit.script(nn.Sequential(nn.Linear(8, 4))), features()).reason
    torch.compiler.reset()
    scripted = nn.Sequential(torch.jit.script(nn.Linear(8, 4)), nn.Linear(4, 4))
    before = [bits(p) for p in scripted.parameters()]
    attempt(scripted, features())
    assert [bits(p) for p in scripted.parameters()] == before


def test_a_thread_that_serves_the_model_meanwhile_gets_right_answers():
    model = MLP().eval()
    batch, started, over = features(), threading.Event(), threading.Event()
    expected = model(batch).detach()
    wrong, answers = [], []

    def slow(graph_module, example_inputs):
        started.set()
        over.wait(0.5)
        return graph_module

    def serve():
        while not over.is_set():
            with torch.no_grad():
                answer = model(batch)
            answers.append(answer)
            if not torch.allclose(answer, expected, rtol=1e-4):
                wrong.append(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        attempt(model, batch, backend=slow, loss_fn=lambda output: output.square().mean())
    finally:
        over.set()
        thread.join()
    assert answers
    assert not wrong


class Gate:
    """Where calls of `Gated` by other threads than the first one stop until it is open."""

    def __init__(self):
        self.owner, self.inside, self.open = threading.get_ident(), threading.Event(), threading.Event()

    def __call__(self):
        if threading.get_ident() != self.owner:
            self.inside.set()
            self.open.wait(10)


class Gated(MLP):
    """An MLP with a gate halfway, which a compile does not see."""

    def forward(self, x):
        x = self.layers[0](x)
        if not torch.compiler.is_compiling():
            gates[0]()
        return self.layers[2](self.layers[1](x))


gates: list[Gate] = []  # of the test that runs, where no smoketest looks for state


@pytest.fixture
def begun():
    """A `Gated`, a batch, the thread that is halfway through a call of it, and the list that its answer goes to."""
    gates[:] = [Gate()]
    model, batch, answers = Gated().eval(), features(), []
    thread = threading.Thread(target=lambda: answers.append(torch.no_grad()(model)(batch)))
    thread.start()
    assert gates[0].inside.wait(10)
    yield model, batch, thread, answers
    gates[0].open.set()
    thread.join()


def test_a_call_that_another_thread_had_begun_gets_its_right_answer(begun):
    model, batch, thread, answers = begun
    threading.Timer(0.5, gates[0].open.set).start()

    def opening(graph_module, example_inputs):
        gates[0].open.set()  # in place, the model has been trained for a step by then
        thread.join()
        return graph_module

    report = attempt(model, batch, backend=opening, loss_fn=lambda output: output.square().mean())
    thread.join()
    assert report.compiled, report.reason
    assert torch.allclose(answers[0], model(batch), rtol=1e-4)


def test_in_place_a_call_of_another_thread_that_does_not_return_keeps_the_model_eager(begun, place, monkeypatch):
    monkeypatch.setattr(rewind, "PATIENCE_SECONDS", 0.1)
    model, batch, thread, answers = begun
    report = attempt(model, batch)
    gates[0].open.set()
    thread.join()
    assert torch.allclose(answers[0], model(batch), rtol=1e-4)
    assert report.compiled == (place == "apart"), report.reason
    assert place == "apart" or "another thread has been in one call of the model" in report.reason


def test_a_function_that_two_models_block_is_blocked_until_both_are_eager():
    cfg = CompileConfig(enabled=True, backend="eager", blocklist=["Logging.note"])
    original = vars(Logging)["note"]
    models = [maybe_compile(Logging(), cfg, logger, features()) for _ in range(3)]
    assert all(compile_report(model).compiled for model in models)
    uncompile(models.pop(0))
    assert vars(Logging)["note"] is not original
    uncompile(models.pop())
    assert vars(Logging)["note"] is not original
    last = weakref.ref(models[0])
    models.clear()  # one that is dropped blocks nothing either
    torch.compiler.reset()
    patient_until = time.monotonic() + 10
    while vars(Logging)["note"] is not original and time.monotonic() < patient_until:
        gc.collect()  # does nothing while another thread collects, as the one that talks with pytest's workers may
        time.sleep(0.01)
    assert vars(Logging)["note"] is original, last() and [type(holder) for holder in gc.get_referrers(last())]


class Logging(nn.Linear):
    def __init__(self):
        super().__init__(8, 4)

    def note(self, x):
        return x

    def forward(self, x):
        return super().forward(self.note(x))
