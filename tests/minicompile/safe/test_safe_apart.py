"""A call in a forked copy of the process: what comes back, what ends it, and what never outlives it."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch._inductor import config as inductor_config

from minicompile.safe.failures import TimeLimitExceeded, WrongNumbers
from minicompile.safe.smoketest import apart
from minicompile.safe.smoketest.apart import CannotFork, ProcessDied, StoodStill, call_apart, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no fork here: {why_not()}")


def gone(process: int) -> bool:
    """Whether a process has ended; it may take the kernel a moment."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{process}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_its_result_comes_back_and_nothing_else():
    seen = []
    weights = torch.ones(3)

    def work(sign):
        seen.append(1)
        weights.zero_()
        return {"weights": weights + 1, "process": os.getpid()}

    found = call_apart(work)
    assert found["weights"].tolist() == [1, 1, 1]
    assert found["process"] != os.getpid()
    assert seen == []
    assert weights.tolist() == [1, 1, 1]


def test_openmp_works_on_both_sides_afterwards():
    matrix = torch.randn(300, 300)
    expected = matrix @ matrix
    for _ in range(2):
        torch.testing.assert_close(call_apart(lambda sign: matrix @ matrix), expected)
        torch.testing.assert_close(matrix @ matrix, expected)


def test_an_exception_keeps_its_class_its_fields_and_the_other_process_s_traceback():
    class Mine(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first} and {second}")
            self.second, self.lock = second, threading.Lock()

    def fail(sign):
        raise Mine("one", 2)

    with pytest.raises(Mine, match="one and 2") as caught:
        call_apart(fail)
    assert caught.value.second == 2
    assert "in fail" in str(caught.value.__cause__)
    with pytest.raises(WrongNumbers) as wrong:
        call_apart(lambda sign: (_ for _ in ()).throw(WrongNumbers("off", "too_far", tensor="x")))
    assert wrong.value.fields == {"tensor": "x"}


def test_an_interrupt_is_one_here_too():
    def interrupt(sign):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_apart(interrupt)


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: ctypes.string_at(0), "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os._exit(3), "exit status 3"),
    ],
)
def test_a_crash_is_contained_and_named_with_the_stage(end, how):
    def work(sign):
        sign("forward")
        end()

    with pytest.raises(ProcessDied, match=how) as caught:
        call_apart(work)
    assert caught.value.stage == "forward"


def test_a_caller_that_reaps_its_children_itself():
    handler = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert call_apart(lambda sign: 7) == 7
        with pytest.raises(ProcessDied, match="not known"):
            call_apart(lambda sign: os._exit(3))
    finally:
        signal.signal(signal.SIGCHLD, handler)


def test_code_that_never_returns_is_killed_with_what_it_started(tmp_path):
    def hang(sign):
        child = subprocess.Popen(["sleep", "600"])
        (tmp_path / "children").write_text(f"{os.getpid()} {child.pid}")
        ctypes.PyDLL(None).pause()  # holds the interpreter's lock: no signal handler and no thread of Python's runs

    with pytest.raises(TimeLimitExceeded):
        call_apart(hang, seconds=2)
    assert all(gone(int(process)) for process in (tmp_path / "children").read_text().split())


def test_a_copy_within_a_copy_ends_with_it(tmp_path):
    def inner(sign):
        (tmp_path / "inner").write_text(str(os.getpid()))
        time.sleep(600)

    with pytest.raises(TimeLimitExceeded):
        call_apart(lambda sign: call_apart(inner), seconds=2)
    assert gone(int((tmp_path / "inner").read_text()))


def test_a_lock_that_another_thread_held_is_noticed(monkeypatch):
    monkeypatch.setattr(apart, "STILL_SECONDS", 0.3)
    lock, release = threading.Lock(), threading.Event()

    def hold():
        with lock:
            release.wait()

    def wait(sign):
        sign("forward")
        lock.acquire()

    thread = threading.Thread(target=hold)
    thread.start()
    while not lock.locked():
        time.sleep(0.01)
    try:
        for waiting in (lambda sign: lock.acquire(), wait):
            with pytest.raises(StoodStill):
                call_apart(waiting)
    finally:
        release.set()
        thread.join()


def test_a_copy_within_a_copy_that_computes_does_not_stand_still(monkeypatch):
    monkeypatch.setattr(apart, "STILL_SECONDS", 0.3)

    def compute(sign):
        until = time.process_time() + 1
        while time.process_time() < until:
            pass
        return 7

    assert call_apart(lambda sign: call_apart(compute)) == 7


def test_a_patient_caller_waits_for_a_copy_that_takes_no_processor_time(monkeypatch):
    monkeypatch.setattr(apart, "STILL_SECONDS", 0.2)
    with pytest.raises(StoodStill):
        call_apart(lambda sign: sign("forward") or time.sleep(2), seconds=60)
    assert call_apart(lambda sign: sign("forward") or time.sleep(1) or 7, seconds=60, patient=True) == 7


def test_inductor_compiles_in_a_copy_when_it_has_compiled_here(monkeypatch, tmp_path, fresh_compiler):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def compiled(size: int) -> float:
        torch.compiler.reset()
        layers = torch.nn.Sequential(torch.nn.Linear(3, size), torch.nn.GELU())
        return torch.compile(layers)(torch.ones(2, 3)).sum().item()

    with inductor_config.patch(compile_threads=2):  # one alone compiles without threads
        for size in (5, 6):
            compiled(size)
        assert isinstance(call_apart(lambda sign: compiled(7), seconds=120), float)


def test_what_cannot_be_sent_and_memory_that_is_shared_are_no_reason_to_fail():
    with pytest.raises(CannotFork, match="cannot be sent"):
        call_apart(lambda sign: threading.Lock())
    shared = torch.ones(2).share_memory_()
    assert "shared with other processes" in why_not([shared])
    assert why_not([torch.ones(2), torch.ones(2).to_sparse(), torch.empty(2, device="meta")]) is None


ENDLESS = """
import os, sys, time
from minicompile.safe.smoketest.apart import call_apart

def work(sign):
    print(os.getpid(), flush=True)
    time.sleep(600)

call_apart(work)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_copy_dies_with_its_process(number):
    parent = subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True)
    copy = int(parent.stdout.readline())
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    assert gone(copy)
