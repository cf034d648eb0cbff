"""What the smoketest costs: one copy of the process, and eager steps; more only where something looks wrong."""

import logging
import os

import pytest
import torch
from safe_models import MLP, build, features
from torch import nn

from minicompile import CompileConfig, compile_report, maybe_compile
from minicompile.safe.smoketest import smoketest
from minicompile.safe.smoketest.apart import call_apart, why_not
from minicompile.safe.smoketest.steps import Subject
from minicompile.torch_private.dynamo import draws_as_eager

pytestmark = [
    pytest.mark.usefixtures("fresh_compiler"),
    pytest.mark.skipif(why_not() is not None, reason="the steps are taken in place"),
]
logger = logging.getLogger(__name__)


def config(**fields) -> CompileConfig:
    return CompileConfig(**{"enabled": True, "backend": "aot_eager", **fields})


@pytest.fixture
def forks(monkeypatch):
    count = []
    monkeypatch.setattr(smoketest, "call_apart", lambda *args, **more: count.append(1) or call_apart(*args, **more))
    return count


@pytest.mark.parametrize("name", ["mlp", "dropout", "batch_norm"])
def test_nothing_wrong_is_one_copy_and_an_eager_step_before_each_compiled_one(name, forks, monkeypatch, tmp_path):
    def eager_step(subject, then_train):
        with (tmp_path / "eager").open("a") as file:
            file.write("x")
        return original(subject, then_train)

    original = Subject.eager_step
    monkeypatch.setattr(Subject, "eager_step", eager_step)
    model, batch = build(name)
    maybe_compile(model, config(backend="eager"), logger, batch)
    assert compile_report(model).compiled, compile_report(model).reason
    assert (len(forks), (tmp_path / "eager").read_text()) == (1, "xxx")


def test_state_that_cannot_be_taken_back_gets_another_copy(forks, monkeypatch):
    class Counting(nn.Linear):
        @torch.compiler.disable
        def calls(self):
            os.environ["CALLS_OF_THE_MODEL"] = str(int(os.environ["CALLS_OF_THE_MODEL"]) + 1)
            return int(os.environ["CALLS_OF_THE_MODEL"])

        def forward(self, x):
            return super().forward(x) * self.calls()

    monkeypatch.setenv("CALLS_OF_THE_MODEL", "0")
    model = maybe_compile(Counting(8, 4), config(backend="eager", smoketest_steps=1), logger, features())
    assert compile_report(model).compiled, compile_report(model).reason
    assert len(forks) == 3
    assert os.environ["CALLS_OF_THE_MODEL"] == "0"


def test_what_is_wrong_only_once_gets_no_second_chance(forks, tmp_path):
    def once(graph_module, example_inputs):
        def run(*arguments):
            with (tmp_path / "calls").open("a+") as file:
                file.write("x")
            wrong = (tmp_path / "calls").stat().st_size == 3
            return tuple(value * (1.5 if wrong else 1) for value in graph_module(*arguments))

        return run

    model = maybe_compile(MLP(), config(backend=once), logger, features())
    assert compile_report(model).stage == "numerics"
    assert len(forks) == 3  # the steps; eager taken back; eager against itself: so far off, float32 explains nothing


def test_random_numbers_are_eager_s_later_where_they_were_drawn():
    for name, later in (("mlp", [True, False]), ("dropout", [True, True])):
        as_eager = []

        def backend(graph_module, example_inputs, as_eager=as_eager):
            as_eager.append(draws_as_eager())
            return graph_module

        torch.compiler.reset()
        model, batch = build(name)
        maybe_compile(model, config(backend=backend), logger, batch)
        for rows in (batch, batch[:3]):
            model(rows)
        assert as_eager == later
