"""The contest on a small shape: rows that fit the schema, figures that follow from samples, who is left out and why."""

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from loss_artefact import loss_artefact

from minikernel.measure.loss import contest
from minikernel.measure.loss.contest import run_contest
from minikernel.measure.loss.recompute import loss
from minikernel.proof.loss.contenders import CONTENDERS, eager_loss
from minilab.config.check import check_schema, read_schema
from minilab.records.artefact import artefact
from minilab.records.compare import figures

ROOT = Path(__file__).parents[4]
PARAMS = {
    "shapes": {"float32": [[24, 16, 50]], "bfloat16": [[9, 16, 33]]},
    "seed": 0,
    "launches": 4,
    "warmup": 0,
    "slowest_seconds": 60,
    "compile_seconds": 0,
    "time_limit_seconds": 60,
}
PROVENANCE = {"hardware": {"gpu": None, "cpu": "a CPU"}, "date": "2026-11-28T10:00:00+00:00"}


@pytest.fixture
def contenders(monkeypatch: pytest.MonkeyPatch) -> dict:
    """Eager under three names, one of them wrong, beside the peers that cannot run here."""
    given = {
        "eager": eager_loss,
        "lab": eager_loss,
        "torch": lambda h, weight, target: 2 * eager_loss(h, weight, target),
    }
    monkeypatch.setattr(contest, "CONTENDERS", {name: CONTENDERS[name] for name in (*given, "compile", "liger", "cce")})
    compiled = contest.function_of("compile")
    monkeypatch.setattr(contest, "function_of", lambda name: compiled if name == "compile" else given[name])
    yield given
    compiled.seconds = None


def test_rows_of_a_contest(contenders: dict):
    made = {"provenance": PROVENANCE, **run_contest(PARAMS, "cpu", lambda line: None)}
    check_schema(made, read_schema(ROOT / artefact("loss").schema), "loss.json")
    rows = {(row["who"], row["dtype"], row["direction"]): row for row in made["rows"]}
    assert len(rows) == 6 * 2 * 2
    for direction in ("both", "forward"):
        assert rows["eager", "float32", direction]["verdict"] == "right"
        assert rows["torch", "float32", direction]["verdict"] == "wrong"
        assert rows["compile", "float32", direction]["refused"] == {"code": "compile_time_used_up"}
        assert rows["liger", "float32", direction]["refused"]["code"] in ("needs_gpu", "not_installed")
    twice = rows["torch", "float32", "both"]
    assert twice["loss_rel_err"] == pytest.approx(1, abs=1e-3)
    assert twice["dh_rel_err"] == pytest.approx(1, abs=1e-3)
    assert rows["eager", "float32", "both"]["dw_rel_err"] < 1e-5
    assert {len(samples) for row in made["rows"] for samples in row["samples_us"].values()} == {4}
    assert made["complete"]
    assert loss(made) == made
    assert any(name.startswith("eager both float32 24x16x50") for name in figures(made))


def test_figures_are_computed_again_from_the_samples():
    made = loss_artefact()
    assert loss(made)["rows"][0]["median_us"] == 800
    made["rows"][0]["samples_us"]["eager"] = [1.0, 2.0, 3.0, 4.0, 100.0]
    again = loss(made)["rows"][0]
    assert (again["median_us"], again["p20_us"]) == (3.0, pytest.approx(1.8))


@pytest.mark.parametrize(("limit", "left_out"), [(2, {"torch"}), (5, set())])
def test_who_takes_too_long_is_left_out(contenders: dict, monkeypatch: pytest.MonkeyPatch, limit: float, left_out: set):
    seconds = {contenders["eager"]: 1.0, contenders["torch"]: 4.1}

    def took(call, device):
        return call(), seconds[call.args[0]]

    # the lab's is eager's function here, so that it takes as long
    monkeypatch.setattr(contest, "one_call", took)
    rows = run_contest({**PARAMS, "slowest_seconds": limit}, "cpu", lambda line: None)["rows"]
    slow = {row["who"] for row in rows if row["who"] in contenders and row["refused"]}
    assert slow == left_out
    assert all(row["refused"] == {"code": "too_slow", "milliseconds": 4100.0} for row in rows if row["who"] in slow)


def test_a_first_call_that_compiles_is_asked_again(contenders: dict, monkeypatch: pytest.MonkeyPatch):
    calls: list = []

    def took(call, device):
        calls.append(call.args[0])
        return call(), 9.0 if calls.count(call.args[0]) == 1 and call.args[0] is contenders["torch"] else 1.0

    monkeypatch.setattr(contest, "one_call", took)
    rows = run_contest({**PARAMS, "slowest_seconds": 2}, "cpu", lambda line: None)["rows"]
    assert not [row for row in rows if row["who"] in contenders and row["refused"]]


def test_a_slow_machine_leaves_nobody_out(contenders: dict, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contest, "one_call", lambda call, device: (call(), 100.0))
    rows = run_contest({**PARAMS, "slowest_seconds": 2}, "cpu", lambda line: None)["rows"]
    assert not [row for row in rows if row["who"] in contenders and row["refused"]]


def test_a_shape_that_comes_too_late_is_said_to_be_left_out():
    made = run_contest({**PARAMS, "time_limit_seconds": -1}, "cpu", lambda line: None)
    assert not made["complete"]
    assert {(row["who"], row["refused"]["code"]) for row in made["rows"]} == {("all", "time_over")}


def test_who_fails_in_one_direction_is_timed_in_the_other(contenders: dict):
    def without_gradient(h, weight, target):
        if not h.requires_grad:
            raise RuntimeError("gradients only")
        return eager_loss(h, weight, target)

    contenders["lab"] = without_gradient
    rows = run_contest({**PARAMS, "shapes": {"float32": [[5, 4, 8]]}}, "cpu", lambda line: None)["rows"]
    lab = {row["direction"]: row for row in rows if row["who"] == "lab"}
    assert lab["both"]["verdict"] == "right"
    assert lab["forward"]["refused"] == {"code": "raised", "text": "RuntimeError: gradients only"}


def test_who_fails_with_gradients_is_not_timed_without(contenders: dict):
    def forward_only(h, weight, target):
        if h.requires_grad:
            raise RuntimeError("no gradients")
        return eager_loss(h, weight, target)

    contenders["lab"] = forward_only
    rows = run_contest({**PARAMS, "shapes": {"float32": [[5, 4, 8]]}}, "cpu", lambda line: None)["rows"]
    lab = {row["direction"]: row["refused"]["code"] for row in rows if row["who"] == "lab"}
    assert lab == {"both": "raised", "forward": "not_judged"}


def test_a_peer_that_is_not_here_has_no_row_of_figures(contenders: dict, monkeypatch: pytest.MonkeyPatch):
    gone = replace(CONTENDERS["cce"], distribution="no-such-package", module="no_such_module")
    monkeypatch.setitem(contest.CONTENDERS, "cce", gone)
    rows = run_contest({**PARAMS, "shapes": {"float32": [[5, 4, 8]]}}, "cpu", lambda line: None)["rows"]
    found = next(row for row in rows if row["who"] == "cce")
    assert found["refused"] == {"code": "not_installed", "package": "no-such-package"}
    assert found["median_us"] is None


def test_the_spread_of_samples():
    found = contest.figures([10.0, 20.0, 30.0, 40.0, 50.0, 60.0], [10.0] * 3, [12.0] * 3)
    assert found["median_us"] == 35
    assert found["p20_us"] == pytest.approx(20)
    assert found["p80_us"] == pytest.approx(50)
    assert found["noise_floor"] == pytest.approx(0.2)


def test_gradients_are_asked_for_without_touching_the_tensors():
    case = contest.Case("plain", 6, 4, 9)
    tensors = contest.made(case, "float32", "cpu", 0)
    contest.both(eager_loss, tensors)
    assert not tensors.h.requires_grad
    assert torch.is_grad_enabled()


def test_where_the_lab_itself_fails_while_it_is_timed_another_is_timed_twice(contenders: dict):
    calls = []

    def falls(*given):
        calls.append(given)
        assert len(calls) < 3, "gone"
        return eager_loss(*given)

    contenders["lab"] = falls
    made = contest.run_contest({**PARAMS, "shapes": {"float32": [[5, 4, 8]]}}, "cpu", lambda line: None)
    lab, eager = ([row for row in made["rows"] if row["who"] == who] for who in ("lab", "eager"))
    assert lab[0]["refused"] == {"code": "raised", "text": "AssertionError: gone"}
    assert eager[0]["duplicated"] == "eager"


class Gpu:
    """A GPU that does what it is told in order, and a host that queues it, each with the microsecond that it is at."""

    def __init__(self) -> None:
        self.host = self.device = 0.0

    def works(self, us: float) -> None:
        self.device = max(self.host, self.device) + us

    def event(self, enable_timing: bool) -> "Event":
        return Event(self)


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.at = gpu, 0.0

    def record(self) -> None:
        self.gpu.works(0.0)
        self.at = self.gpu.device

    def query(self) -> bool:
        return self.gpu.host >= self.at

    def synchronize(self) -> None:
        self.gpu.host = max(self.gpu.host, self.at)

    def elapsed_time(self, end: "Event") -> float:
        return (end.at - self.at) / 1e3


def test_a_host_that_is_slower_than_the_gpu_is_not_timed(monkeypatch: pytest.MonkeyPatch):
    """torch.compile's takes more than a millisecond to queue a step of 0.2 ms, at times."""
    gpu, begun = Gpu(), itertools.count(1)

    def call(host_us: float, waits: bool = False) -> None:
        gpu.host += host_us * (5 if next(begun) % 7 == 0 else 1)  # now and then it is held up
        gpu.works(90.0)
        gpu.host = max(gpu.host, gpu.device) if waits else gpu.host

    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: gpu.works(cycles / 2e3))
    monkeypatch.setattr(torch.cuda, "Event", gpu.event)
    monkeypatch.setattr(contest, "wait", lambda device: None)
    calls = {"quick": partial(call, 20.0), "slow": partial(call, 1500.0)}
    samples = contest.clock(calls, 8, 1, torch.device("cuda"))
    assert samples == {"quick": [90.0] * 8, "slow": [90.0] * 8}
    [alone] = contest.clock({"waits": partial(call, 20.0, waits=True)}, 1, 1, torch.device("cuda")).values()
    assert alone == [90.0]  # what waits for the GPU within a call is timed all the same
