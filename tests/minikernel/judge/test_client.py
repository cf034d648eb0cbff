"""What a kernel's process says is held to what was asked, and what it is given ends when the judge does."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from minikernel.judge import client
from minikernel.judge.client import Failed, Gone, KernelProcess, Workshop
from minikernel.judge.memory import Block
from minikernel.judge.subject import Subject
from minilab.sandbox.forks import ForkServer
from minilab.sandbox.landlock import version
from minilab.sandbox.process import Confined

HERE = Path(__file__).parents[1]
GOOD = {"source": str(HERE / "misbehaving.py"), "function": "good"}
TRIES = """
import os, tempfile

def refused(does):
    try:
        does()
    except Exception as error:
        return type(error).__name__

def own():
    open(os.environ["TRITON_CACHE_DIR"] + "2", "w")
    tempfile.TemporaryFile()

read, wrote = refused(lambda: open({answer!r})), refused(lambda: open({answer!r} + "2", "w"))
raise RuntimeError(f"read {{read}}, wrote {{wrote}}, own {{refused(own)}}")
"""


@pytest.fixture
def forked(forks: Callable[..., Confined], monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's processes are forked; where this is left out, interpreters are started, as the lab does."""
    monkeypatch.setattr(client, "Confined", forks)


def test_a_failure_leaves_the_process_and_its_place_is_named():
    with KernelProcess("mine", "cpu", 120, "proof.time_limit_seconds") as process:
        process.load("mine", GOOD)
        process.use(Block(100))
        process.place("case", case="random", shape=[5, 1], dtype="float32")
        with pytest.raises(Failed, match=r"kernel mine on cpu, case 'random' .*: it failed with KeyError: 'another'"):
            process.ask("call", name="another", x=[[1], [1], 0, "float32"], key=0)
        assert Subject(process, "mine", 1e-6).error(torch.randn(5, 7)) < 1e-6


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("figure", [None, True, "1", -1, float("nan"), float("inf"), [1]])
def test_a_figure_that_is_none_ends_it(figure: object):
    with KernelProcess("mine", "cpu", 120, "proof.time_limit_seconds") as process:
        process.load("mine", GOOD)
        with pytest.raises(Gone, match="its process answered what it was not asked"):
            process.figure({"microseconds": figure}, "microseconds")
        with pytest.raises(Gone):
            process.ask("forget")


@pytest.mark.usefixtures("forked")
def test_a_file_that_is_not_there_is_the_users_own_sentence():
    with (
        KernelProcess("mine", "cpu", 60, "proof.time_limit_seconds") as process,
        pytest.raises(Failed, match=r"^kernel mine: nowhere.py does not exist; write the path"),
    ):
        process.load("mine", {"source": "nowhere.py", "function": "softmax"})


@pytest.mark.usefixtures("forked")
def test_what_it_printed_is_cut_and_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO"), KernelProcess("mine", "cpu", 60, "proof.time_limit_seconds") as process:
        process.load("mine", {**GOOD, "function": "prints"})
        Subject(process, "mine", 1e-6).error(torch.randn(1, 2))
    assert "the last word" in caplog.text
    assert len(caplog.text) < 20_000


@pytest.mark.usefixtures("forked")
def test_a_limit_beyond_any_timer_is_none():
    with KernelProcess("mine", "cpu", 1e10, "proof.time_limit_seconds") as process:
        assert process.load("mine", GOOD)["tuned"] is False


@pytest.mark.skipif(not version(), reason="this kernel has no Landlock")
def test_a_process_that_cannot_be_forked_is_kept_from_what_is_hidden_too(server: ForkServer, tmp_path: Path):
    hidden, own = tmp_path / "class", tmp_path / "own"
    hidden.mkdir()
    own.mkdir()
    (hidden / "answer").write_text("")
    (tmp_path / "mine.py").write_text(TRIES.format(answer=str(hidden / "answer")))
    place = Workshop(server, own, (hidden,))  # which does not fork what asks for a GPU, or for "meta" in its place
    with (
        KernelProcess("mine", "meta", 60, "knob", workshop=place) as process,
        pytest.raises(Failed, match="RuntimeError: read PermissionError, wrote PermissionError, own None"),
    ):
        process.load("mine", {"source": str(tmp_path / "mine.py"), "function": "softmax"})
