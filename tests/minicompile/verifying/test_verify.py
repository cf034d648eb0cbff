"""Ties of models that are compiled here, held against what a reader sees in their kernels' text."""

import dataclasses
import re
from unittest import mock

import pytest
import torch
from captured import FAST
from torch import nn
from torch._inductor.async_compile import AsyncCompile

from minicompile.verifying.ties import Ties
from minicompile.verifying.verify import Live, all_ties, ties_of
from minicompile.watching.model import watched_session
from minicompile.watching.output_code import triton_sources
from minicompile.watching.session import fresh_dynamo, watch


class Normed(nn.Module):
    """A softmax, and a layer norm of what a product makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(24, 40), nn.LayerNorm(40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(torch.softmax(x.tanh(), -1)))


def lives(model, *inputs: torch.Tensor, target: str | None = "simulated") -> list[Live]:
    """The graphs of a model's compile, as the watch held them; for the CPU no kernel of Inductor's is built."""
    unbuilt = mock.patch.object(AsyncCompile, "cpp_pybinding", return_value=lambda *_arguments: None)
    with fresh_dynamo(), watch(target) as seen, unbuilt, torch.no_grad():
        torch.compile(model, options=FAST if target is None else None)(*inputs)
    return [one["live"] for one in seen.lowered]


@pytest.fixture(scope="module")
def normed() -> Live:
    torch.manual_seed(0)
    (live,) = lives(Normed(), torch.randn(6, 24))
    return live


@pytest.fixture(scope="module")
def ties(normed) -> Ties:
    return ties_of(normed)


def texts(live: Live) -> dict[str, list[str]]:
    return {name: text.split("\n") for name, (_, text) in triton_sources(live.code.split("\n")).items()}


def kind(node: str) -> str:
    """`exp` of `exp_default_1`."""
    return node.partition("_")[0]


def test_every_node_is_found(ties):
    assert ties["refused"] is None
    assert ties["inputs"] == 3
    assert {one["where"] for one in ties["nodes"].values()} <= {"line", "library", "view"}
    assert [one["status"] for one in ties["calls"]] == ["verified"] * len(ties["calls"])


def test_a_line_is_the_one_that_computes(ties, normed):
    """What the text does there: an exponential where the graph has `exp`, a reciprocal root where it has `rsqrt`."""
    found: dict[str, str] = {}
    for call in ties["calls"]:
        lines = texts(normed).get(call["kernel"])
        found |= {kind(one["nodes"][0]): lines[one["line"] - 1] for one in call["lines"] if one["first"]}
    assert "exp(" in found["exp"]
    assert "rsqrt(" in found["rsqrt"]
    assert " / " in found["div"]


def test_memory(ties, normed):
    """Buffers of the wrapper: who writes, who reads, what lies in them at the end."""
    calls = ties["calls"]
    library = next(one for one in calls if one["kind"] == "library")
    assert "addmm" in library["computes"] or "mm" in library["computes"]
    softmax = calls[library["call"] - 1]
    assert set(softmax["writes"]) <= set(library["reads"])
    (returned,) = [one for one in ties["buffers"].values() if one["returned"]]
    assert returned["nodes"] == [calls[-1]["computes"][-1]]
    assert returned["written_by"][-1] == calls[-1]["call"]
    # the wrapper says where a buffer takes over another's memory
    reused = re.findall(r"(buf\d+) = (\w+); del \2  # reuse", normed.code)
    assert [tuple(one) for call in calls for one in call["in_place"]] == reused


def test_a_kernel_that_computes_something_else_is_not_the_nodes(normed, ties):
    """A tangent became a sine: no line after it has the nodes' values."""
    changed = dataclasses.replace(normed, code=normed.code.replace("libdevice.tanh(", "libdevice.sin("))
    assert changed.code != normed.code
    found = ties_of(changed)
    lost = {kind(name) for name, one in found["nodes"].items() if one["where"] == "nowhere"}
    assert {"tanh", "exp", "div", "addmm"} <= lost


def test_an_error_of_ours_is_a_refusal(normed):
    broken = ties_of(dataclasses.replace(normed, code=normed.code.replace("def call(", "def other(")))
    assert broken["refused"]["code"] == "error"
    assert broken["calls"] == []


def test_no_time_refuses_the_calls(normed):
    late = ties_of(normed, per_call=0.0)
    kernels = [one for one in late["calls"] if one["kind"] == "kernel"]
    assert kernels
    assert {one["code"] for one in kernels} == {"time"}


def test_a_session_that_was_taken_is_verified_later():
    torch.manual_seed(0)
    with fresh_dynamo(), watch("simulated") as seen, torch.no_grad():
        torch.compile(lambda x: torch.relu(x) + 1)(torch.randn(5, 7))
    subject = {"name": "m", "class": "m", "train": False, "inputs": []}
    plain = watched_session(seen, subject, "simulated", {}, machine_code=False)
    verified = watched_session(seen, subject, "simulated", {}, machine_code=False, verify=True)
    assert "ties" not in plain["lowered"][0]
    (call,) = verified["lowered"][0]["ties"]["calls"]
    assert call["computes"] == ["relu", "add"]


@pytest.fixture(scope="module")
def cpp() -> tuple[Live, Ties, Ties]:
    """A graph for the CPU, its ties, and those of code in which a factor was changed."""
    torch.manual_seed(0)
    (live,) = lives(lambda x, y: torch.softmax(x * y.sigmoid(), -1), torch.randn(5, 19), torch.randn(19), target=None)
    changed = dataclasses.replace(live, code=re.sub(r"\.exp\(\)|std::exp\(", lambda found: {
        ".exp()": ".expm1()", "std::exp(": "std::expm1("}[found[0]], live.code))  # fmt: skip
    assert changed.code != live.code
    return live, *all_ties([live, changed])


def test_cpp_lines(cpp):
    """Rows of 19 are two vectors and three numbers: the lines of either have the nodes' values."""
    live, ties, _ = cpp
    assert {one["where"] for one in ties["nodes"].values()} <= {"line", "view"}
    (call,) = ties["calls"]
    text = live.code[live.code.index("#include <torch") :].split("\n")
    lines = {kind(node): text[one["line"] - 1] for one in call["lines"] if one["first"] for node in one["nodes"]}
    assert "exp(" in lines["exp"]
    assert " / " in lines["div"]
    assert "tmp_acc" in lines["sum"]
    (store,) = [one for one in call["stores"] if ties["buffers"][one["buffer"]]["returned"]]
    assert kind(store["nodes"][0]) == "div"


def test_cpp_that_computes_something_else(cpp):
    _, _, changed = cpp
    assert {"exp", "div"} <= {kind(name) for name, one in changed["nodes"].items() if one["where"] == "nowhere"}
