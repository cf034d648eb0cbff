"""A user's model is profiled as the lab's own are: trained, dynamic, broken or bad, each from a process of its own."""

import json
import logging
from pathlib import Path

import pytest
import torch
from torch import nn

from minicompile.profile import conclusions
from minicompile.profile.first_call import first_call, pool_bytes
from minicompile.profile.measure import measure
from minicompile.profile.subject import gradients, results, shape_of, step, subject, unit
from minicompile.profile.timing import in_turn
from minilab.config.check import check_schema, read_schema

pytestmark = pytest.mark.usefixtures("forked_python")
ROOT = Path(__file__).parents[3]
log = logging.getLogger("profile")
CEILINGS = {
    **{f"{name}_gb_per_s": 10.0 for name in ("copy", "l2")},
    **{f"{name}_tflop_per_s": None for name in ("tf32", "bf16")},
    "fp32_tflop_per_s": 0.1,
    "datasheet": {"memory_gb_per_s": 20.0},
    "provenance": {"hardware": {"gpu": None, "cpu": "Some Chip"}},
}
MODELS = """
import os
import torch
from torch import nn

class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, scale=1.0):
        y = self.linear(x) * scale
        torch._dynamo.graph_break()
        return {"relu": y.relu(), "sums": [y.sum(-1)]}

def parts():
    torch.manual_seed(0)  # of a large sum, the last bit alone is more than the bound
    return Parts(), {"x": torch.randn(4, 8)}, {"scale": 2.0}

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.dropout = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.linear(x)).square().mean()

def loss():
    return Loss().train(), torch.randn(4, 8)

def ids():
    return nn.Embedding(10, 4), torch.zeros(3, 5, dtype=torch.int64)

class Bad(nn.Module):
    def forward(self, x):
        raise ValueError("boom")

def bad():
    return Bad(), (torch.randn(4, 8),)
"""


@pytest.fixture
def entry(tmp_path: Path):
    source = tmp_path / "models.py"
    source.write_text(MODELS)
    return lambda factory, **more: {"source": str(source), "factory": factory, **more}


def of(entry: dict) -> dict:
    return {"model": "mine", "entry": entry, "shape": None, "checkpoint": "none"}


def params(entry: dict, modes: tuple[str, ...] = ("default",), **compile_fields) -> dict:
    compiling = {"time_limit_seconds": 300, "dynamic": None, "options": None, "backend": "inductor", **compile_fields}
    case = {"shape": None, "modes": list(modes), "kernels": True, "attention": []}
    return {
        "calls": 100, "samples": 10, "largest_difference": None, "cases": [case], "compile": compiling, "entry": entry,
    }  # fmt: skip


def profiled(entry: dict, **compile_fields) -> dict:
    samples = json.loads(json.dumps(measure("mine", params(entry, **compile_fields), "none", "cpu", CEILINGS, log)))
    check_schema({**samples, "provenance": {}}, read_schema(ROOT / "schemas/profile_samples.schema.yaml"), "samples")
    made = conclusions.profiled(samples)
    check_schema({**made, "provenance": {}}, read_schema(ROOT / "schemas/profile.schema.yaml"), "profile.json")
    return made


def test_a_model_with_a_break_that_takes_and_gives_dicts_gets_times_and_kernels(entry):
    made = profiled(entry("parts"))
    (timing,) = made["timings"]
    assert (timing["shape"], timing["graph_breaks"], timing["max_difference"]) == (
        [4, 8],
        1,
        pytest.approx(0, abs=1e-6),
    )
    assert timing["start_seconds"] > 0
    assert timing["cold_compile_seconds"] > timing["warm_compile_seconds"] > 0
    assert timing["calls"] == 2 * len(timing["eager"]["again_us"]) == 2 * len(timing["compiled"]["samples_us"])
    assert len(made["kernels"]) == 2
    assert made["left_out"] == []
    assert made["roofline"]["datasheet_gb_per_s"] == 20.0
    assert made["busy"][0]["busy"]["seconds"] > 0


def test_a_model_that_raises_is_left_out_with_a_sentence(entry, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "profile"):
        made = profiled(entry("bad"))
    assert (made["timings"], made["shapes"], made["kernels"]) == ([], [], [])
    assert made["left_out"] == [
        {"shape": None, "mode": "default", "reason": {"code": "eager", "raised": "ValueError: boom"}}
    ]
    (said,) = caplog.messages
    assert "\n" not in said


@pytest.mark.parametrize("train", [True, False])
def test_a_call_of_a_model_that_trains_is_its_loss_and_the_backward_pass(entry, train: bool):
    made = subject(**of(entry("loss", train=train)), device="cpu")
    torch.manual_seed(0)
    with gradients(made):
        found = list(results(made, step(made)()))
    assert len(found) == (3 if train else 1)  # the loss, and the gradients of weight and bias
    assert (unit(made), shape_of(made)) == (("rows", 4), [4, 8])


def test_ids_are_counted_as_tokens(entry):
    assert unit(subject(**of(entry("ids")), device="cpu")) == ("tokens", 15)


def test_outputs_of_a_model_that_draws_random_numbers_are_not_compared(
    entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("minicompile.profile.first_call.start", lambda mode, device: 0.0)
    config = {"mode": "default", "backend": "eager"}
    for factory, comparable in (("loss", False), ("ids", True)):
        found = first_call(of(entry(factory)), config, "cpu", str(tmp_path / factory))
        assert (found["max_difference"] is not None) == comparable
        assert found["pool_bytes"] is None


def test_every_side_is_timed_twice_a_round_with_the_others_between():
    called: list[str] = []
    taken = in_turn({name: lambda name=name: called.append(name) for name in ("eager", "a", "b")}, 3)
    assert called[-6:] == ["eager", "a", "b"] * 2
    assert {len(samples) for pair in taken.values() for samples in pair} == {3}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_graphs_memory_is_measured_with_its_pool(tmp_path: Path):
    of_head = {"model": "tiny_head", "entry": None, "shape": [64, 64], "checkpoint": "none"}
    found = {
        mode: first_call(of_head, {"mode": mode}, "cuda", str(tmp_path / mode))
        for mode in ("default", "reduce-overhead")
    }
    assert found["default"]["pool_bytes"] == 0
    for one in found.values():
        assert one["peak_bytes"] >= 64 * 600 * 4  # the output at the least
    assert found["reduce-overhead"]["pool_bytes"] >= 64 * 600 * 4
    assert pool_bytes() >= 0


def test_a_function_is_profiled_too(tmp_path: Path):
    (tmp_path / "f.py").write_text("import torch\n\ndef make():\n    return torch.sin, torch.zeros(3)\n")
    made = subject(**of({"source": str(tmp_path / "f.py"), "factory": "make"}), device="cpu")
    assert isinstance(made.module, nn.Module)
    assert step(made)().tolist() == [0.0] * 3
