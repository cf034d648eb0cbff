"""Each call has a process as new as the last one's was, and one that fails ends that process alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicompile.profile.own_process import Processes, own_processes

SRC = Path(__file__).parents[3] / "src"
CALLED = """
import os, time
from minilab import LabError
calls = 0

def count():
    global calls
    calls += 1
    print("printed")
    return {"calls": calls, "process": os.getpid(), "imported": "decimal" in __import__("sys").modules}

def boom():
    raise ValueError("boom\\nand more")

def refuse():
    raise LabError("It cannot be.")

def crash():
    os.abort()

def leave():
    os._exit(3)

def hang():
    time.sleep(600)
"""


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Processes]:
    (tmp_path / "called.py").write_text(CALLED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{SRC}")
    with own_processes(("decimal",), time_limit_seconds=20) as found:
        yield found


def test_nothing_is_left_of_one_call_in_the_next(processes: Processes):
    first, second = (processes.run("called:count").value for _ in range(2))
    assert first["calls"] == second["calls"] == 1
    assert len({first["process"], second["process"], os.getpid()}) == 3
    assert first["imported"]


def test_where_autograd_has_threads_each_call_begins_anew(monkeypatch: pytest.MonkeyPatch, capfd):
    # `threaded` is not imported here, where it would begin its thread for all tests that follow
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2] / 'minilab'}:{SRC}")
    with own_processes(("threaded",), time_limit_seconds=60) as processes:
        assert processes.run("threaded:is_new").value is True
    assert "each call begins in a new process" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("called:boom", {"code": "raised", "raised": "ValueError: boom"}),
        ("called:refuse", {"code": "refused", "sentence": "It cannot be."}),
        ("called:crash", {"code": "crashed", "signal": "SIGABRT"}),
        ("called:leave", {"code": "exited"}),
    ],
)
def test_a_call_that_fails_is_a_reason_and_the_next_one_works(processes: Processes, function: str, reason: dict):
    assert processes.run(function).reason == reason
    assert processes.run("called:count").reason is None


def test_a_call_that_hangs_is_ended_with_its_process(processes: Processes):
    processes.time_limit_seconds = 0.5
    assert processes.run("called:hang").reason == {"code": "timed_out", "seconds": 0.5}
    processes.time_limit_seconds = 20
    assert processes.run("called:count").reason is None
