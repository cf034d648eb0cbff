"""However a model is called it is captured, and afterwards it, its optimizer and the random numbers are as before."""

import copy
import random
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from captured import FAST
from torch import nn
from torch.nn import functional as F

from minicompile.capturing import capture
from minicompile.watching.model import call_arguments, loss_of
from minicompile.watching.snapshot import described
from minilab import LabError
from minilab.config.check import check_schema, read_schema

SCHEMA = read_schema("schemas/capture.schema.yaml")


@dataclass
class Batch:
    x: torch.Tensor
    scale: float = 2.0


class Takes(nn.Module):
    def forward(self, x, scale=1.0, *, shift=0.0):
        x = x.x * x.scale if isinstance(x, Batch) else x["x"] if isinstance(x, dict) else x
        return x * scale + shift


ONES = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("model", "args", "kwargs", "expected"),
    [
        (Takes(), (ONES, 2.0), None, ((ONES, 2.0), {})),
        (Takes(), ONES, {"shift": 1.0}, ((ONES,), {"shift": 1.0})),
        (Takes(), {"x": ONES, "scale": 3.0}, None, ((), {"x": ONES, "scale": 3.0})),
        (nn.Sequential(), {"x": ONES}, None, (({"x": ONES},), {})),
        (lambda x: x.sin(), ONES, None, ((ONES,), {})),
    ],
)
def test_arguments_are_told_apart(model, args, kwargs, expected):
    assert call_arguments(model, args, kwargs) == expected


@pytest.mark.parametrize("args", [ONES, (Batch(ONES),), {"x": ONES, "scale": 3.0}, ({"x": ONES},)])
def test_a_model_is_captured_however_it_is_called(args):
    made = capture(Takes(), args, {"shift": 1.0}, target="simulated")
    check_schema(made, SCHEMA, "the capture")
    assert [graph["id"] for graph in made["graphs"]] == ["0.forward"]


def test_what_an_input_holds_is_told():
    assert described(Batch(ONES))["holds"] == {".x": {"kind": "tensor", "size": [2, 3], "dtype": "float32"}}
    assert described(ONES)["size"] == [2, 3]
    assert "holds" not in described(3)


SEVEN = torch.tensor(7.0)


@pytest.mark.parametrize("output", [SEVEN, {"loss": SEVEN}, SimpleNamespace(loss=SEVEN), (ONES, SEVEN)])
def test_the_loss_is_found(output):
    assert loss_of(output) == 7.0


@pytest.mark.parametrize("output", [ONES, {"logits": ONES}, (ONES,), None])
def test_what_is_no_loss_is_none(output):
    assert loss_of(output) is None


class Trained(nn.Module):
    """Everything that a call may change: running statistics, random numbers, an attribute, a gradient, a mode."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.calls = nn.Linear(3, 4), nn.BatchNorm1d(4), [0]
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen += 1
        return F.dropout(self.norm(self.linear(x)), 0.5, self.training).square().mean()


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> list:
    own = [*model.named_parameters(), *model.named_buffers()]
    values = [(name, tensor.tolist(), None if tensor.grad is None else tensor.grad.tolist()) for name, tensor in own]
    modes = [module.training for module in model.modules()]
    drawn = [torch.get_rng_state().tolist(), random.getstate()]
    return [values, modes, model.calls[:], drawn, copy.deepcopy(optimizer.state_dict())]


@pytest.fixture
def trained():
    model = Trained()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(5, 3)).backward()
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("target", ["cpu", "simulated"])
def test_a_training_step_is_captured_graph_by_graph_and_undone(trained, target):
    model, optimizer = trained

    def step(x):
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        optimizer.step()
        model.eval()
        random.random()

    x = torch.randn(5, 3)
    before = state(model, optimizer)
    made = capture(step, x, target=target, options=FAST if target == "cpu" else None)
    check_schema(made, SCHEMA, "the capture")
    assert str(state(model, optimizer)) == str(before)
    assert [graph["id"] for graph in made["graphs"]] == ["0.forward", "0.backward", "1.forward"]
    assert any(node["target"].startswith("aten.sqrt") for node in made["graphs"][2]["nodes"])
    backward = next(one for one in made["graph_breaks"] if "backward" in one["reason"])
    assert (backward["after"], backward["before"]) == (0, 1)


def test_all_is_as_before_after_an_exception(trained):
    model, optimizer = trained

    def fails(x):
        model(x).backward()
        optimizer.step()
        raise ValueError("too far")

    x = torch.randn(5, 3)
    before = state(model, optimizer)
    with pytest.raises(ValueError, match="too far"):
        capture(fails, x, target="simulated")
    assert str(state(model, optimizer)) == str(before)


def test_inputs_that_a_model_writes_into_are_as_before():
    x, gradient = torch.ones(2, 3, requires_grad=True), torch.full((2, 3), 5.0)
    x.grad, y = gradient, torch.zeros(2, 3)

    def writes(x, y):
        y.add_(x.detach())
        (x * 2).sum().backward()

    capture(writes, (x, y), options=FAST)
    assert y.sum() == 0
    assert x.grad is gradient
    assert gradient.sum() == 30


def test_an_option_that_inductor_does_not_know_is_refused_in_one_sentence():
    with pytest.raises(LabError, match="Unexpected optimization option no_such_option"):
        capture(Takes(), ONES, options={"no_such_option": 1})
