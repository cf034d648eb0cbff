"""Stepping: pdb stops where an operation is lowered and where fusing it is decided, and says what to look at."""

import io
import pdb
import sys
from functools import partial
from pathlib import Path

import pytest
from annotation_models import make

from minicompile.command import main
from minicompile.models import CapturedModel
from minicompile.step import Stops, step
from minilab import LabError

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def coverage_goes_on():
    """Python traces for one at a time: after pdb's turn it traces for coverage again."""
    before = sys.gettrace()
    yield
    sys.settrace(before)


def scripted(commands: str) -> tuple[io.StringIO, partial]:
    """What pdb prints, and how to make a pdb that reads these commands."""
    printed = io.StringIO()
    return printed, partial(pdb.Pdb, stdin=io.StringIO(commands), stdout=printed, nosigint=True, readrc=False)


@pytest.fixture
def tiny_head() -> CapturedModel:
    module, inputs = make("tiny_head")
    return CapturedModel("tiny_head", module.eval(), inputs)


def test_it_stops_at_the_lowering_and_at_the_fusion_decision(tiny_head, capsys):
    printed, debugger = scripted("p node.name, lowering.__qualname__\nc\np first.get_name(), second.get_name()\nc\n")
    stops = step(tiny_head, "aten._softmax", make_debugger=debugger)
    told = capsys.readouterr().out
    assert stops.seen == {"lowering", "fusion"}
    assert "Inductor lowers aten.amax.default, part of aten._softmax.default." in told
    assert told.index("Inductor lowers") < told.index("Inductor's scheduler decides")
    assert "('amax', 'make_reduction.<locals>.inner')" in printed.getvalue()
    assert "('op1', 'op2')" in printed.getvalue()
    assert printed.getvalue().count("(Pdb)") == 4


def test_every_part_and_decision_when_asked(tiny_head, capsys):
    _, debugger = scripted("c\n" * 50)
    step(tiny_head, "aten._softmax", every=True, make_debugger=debugger)
    told = capsys.readouterr().out
    assert told.count("Inductor lowers") == 5  # amax, sub, exp, sum, div
    assert told.count("Inductor's scheduler decides") > 1


def test_stepping_in_leads_into_torch(tiny_head):
    printed, debugger = scripted("s\nw\nc\nc\n")
    step(tiny_head, "aten.exp", make_debugger=debugger)
    assert "_inductor/graph.py" in printed.getvalue()


def test_q_ends_the_compile_quietly(tiny_head):
    _, debugger = scripted("q\n")
    stops = step(tiny_head, "aten._softmax", make_debugger=debugger)
    assert stops.left
    assert stops.seen == {"lowering"}


def test_an_operation_that_is_not_there_is_refused_with_those_that_are(tiny_head):
    with pytest.raises(LabError, match=r"no aten\.conv2d; write one .*aten\.amax\.default"):
        step(tiny_head, "aten.conv2d")


def test_a_torch_that_lowers_elsewhere_is_refused(tiny_head, monkeypatch):
    monkeypatch.setattr("minicompile.torch_private.stepping.LOWERED_BY", "call_something_else")
    with pytest.raises(LabError, match=r"no GraphLowering\.call_something_else"):
        step(tiny_head, "aten._softmax")


def test_names_are_matched_whole_or_without_the_overload():
    stops = Stops("aten._softmax", every=False)
    assert stops.is_wanted("aten._softmax")
    assert stops.is_wanted("aten._softmax.default")
    assert not stops.is_wanted("aten._softmax_backward_data.default")


def test_a_users_file_is_stepped_through_from_the_command_line(tmp_path, monkeypatch, capsys):
    source = tmp_path / "mine.py"
    source.write_text("import torch\n\ndef make():\n    return torch.nn.Softplus(), (torch.ones(8),)\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("c\nc\n"))
    assert main(["step", f"{source}:make", "--at", "aten.softplus"]) == 0
    assert "part of aten.softplus.default" in capsys.readouterr().out
