"""What a kernel's process says is held to what was asked, and what it is given ends when the judge does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from minikernel.exercise.workshop import workshop
from minikernel.judge.client import Failed, Gone, KernelProcess
from minikernel.judge.memory import Block
from minikernel.judge.subject import Subject
from minilab.sandbox.landlock import version

HERE = Path(__file__).parents[1]
GOOD = {"source": str(HERE / "misbehaving.py"), "function": "good"}


@pytest.fixture
def process() -> Iterator[KernelProcess]:
    with KernelProcess("mine", "cpu", 120, "proof.time_limit_seconds") as process:
        process.load("mine", GOOD)
        yield process


def test_a_failure_leaves_the_process_and_its_place_is_named(process: KernelProcess):
    process.use(Block(100))
    process.place("case", case="random", shape=[5, 1], dtype="float32")
    with pytest.raises(Failed, match=r"kernel mine on cpu, case 'random' .*: it failed with KeyError: 'another'"):
        process.ask("call", name="another", x=[[1], [1], 0, "float32"], key=0)
    assert Subject(process, "mine", 1e-6).error(torch.randn(5, 7)) < 1e-6


@pytest.mark.parametrize("figure", [None, True, "1", -1, float("nan"), float("inf"), [1]])
def test_a_figure_that_is_none_ends_it(process: KernelProcess, figure: object):
    with pytest.raises(Gone, match="its process answered what it was not asked"):
        process.figure({"microseconds": figure}, "microseconds")
    with pytest.raises(Gone):
        process.ask("forget")


def test_a_file_that_is_not_there_is_the_users_own_sentence():
    with (
        KernelProcess("mine", "cpu", 60, "proof.time_limit_seconds") as process,
        pytest.raises(Failed, match=r"^kernel mine: nowhere.py does not exist; write the path"),
    ):
        process.load("mine", {"source": "nowhere.py", "function": "softmax"})


def test_what_it_printed_is_cut_and_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO"), KernelProcess("mine", "cpu", 60, "proof.time_limit_seconds") as process:
        process.load("mine", {**GOOD, "function": "prints"})
        Subject(process, "mine", 1e-6).error(torch.randn(1, 2))
    assert "the last word" in caplog.text
    assert len(caplog.text) < 20_000


def test_a_limit_beyond_any_timer_is_none():
    with KernelProcess("mine", "cpu", 1e10, "proof.time_limit_seconds") as process:
        assert process.load("mine", GOOD)["tuned"] is False


@pytest.mark.skipif(not version(), reason="this kernel has no Landlock")
def test_a_process_that_cannot_be_forked_is_kept_from_what_is_hidden_too(tmp_path: Path):
    hidden = tmp_path / "class"
    hidden.mkdir()
    (hidden / "answer").write_text("")
    source = tmp_path / "mine.py"
    entry = {"source": str(source), "function": "softmax"}
    tries = {
        "open(ANSWER)": "PermissionError",
        "open(ANSWER + '2', 'w')": "PermissionError",
        "open(os.environ['TRITON_CACHE_DIR'] + '2', 'w'), tempfile.TemporaryFile()": None,
    }
    with workshop((hidden,)) as place:
        for does, raised in tries.items():
            source.write_text(f"import os, tempfile\nANSWER = {str(hidden / 'answer')!r}\n{does}\nsoftmax = print\n")
            with KernelProcess("mine", "meta", 60, "knob", workshop=place) as process:  # of every GPU's kind
                if raised:
                    with pytest.raises(Failed, match=raised):
                        process.load("mine", entry)
                else:
                    assert process.load("mine", entry)["tuned"] is False
