"""What is counted: every thread's share, by the system's own events here, and why nothing is where nothing is."""

import ctypes
import errno
import mmap
import platform
import threading
from pathlib import Path

import pytest

from minikernel.measure.cpu import counters
from minikernel.measure.cpu.counters import COUNTED, FORBIDDEN, MISSING, account, counting, line_bytes, opened

SOFTWARE_TASK_CLOCK = (1, 1)  # nanoseconds of a thread; no processor's counter is needed
SPIN = 2_000_000


def spin() -> int:
    return sum(range(SPIN))


@pytest.fixture
def task_clock(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(counters, "EVENTS", {"cycles": SOFTWARE_TASK_CLOCK})
    descriptors, state = opened("cycles")
    for one in descriptors:
        counters.os.close(one)
    if state != COUNTED:
        pytest.skip(f"this system's own events are {state}")


def test_what_all_threads_did_is_counted(task_clock):
    begin, end = threading.Event(), threading.Event()

    def work() -> None:
        begin.wait()
        spin()
        end.set()

    other = threading.Thread(target=work)
    other.start()
    with counting() as here:
        before = here.read()["cycles"]
        begin.set()
        end.wait()  # this thread does nothing
        counted = here.read()["cycles"] - before
    other.join()
    assert here.state == {"cycles": COUNTED}
    assert counted > 1e6  # a millisecond of the other thread's


@pytest.mark.parametrize(
    ("number", "state"), [(errno.EACCES, FORBIDDEN), (errno.EPERM, FORBIDDEN), (errno.ENOENT, MISSING)]
)
def test_a_counter_that_cannot_be_opened_says_why(monkeypatch: pytest.MonkeyPatch, number: int, state: str):
    class Refusing:
        def syscall(self, *arguments):
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr(counters.ctypes, "CDLL", lambda *arguments, **options: Refusing())
    with counting() as none:
        assert none.state == dict.fromkeys(counters.EVENTS, state)
        assert none.read() == dict.fromkeys(counters.EVENTS)


def test_a_machine_without_such_counters_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert opened("cycles", str(tmp_path / "nowhere")) == ([], MISSING)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert opened("cycles") == ([], MISSING)


def test_new_memory_is_accounted_by_its_pages():
    pages = 3000
    before, _ = account()
    with mmap.mmap(-1, pages * 4096) as memory:  # not the allocator's, which may have pages at hand
        memory.write(b"1" * len(memory))
    faults = account()[0] - before
    assert faults > 0  # huge pages may be fewer than pages


def test_a_line_is_a_power_of_two_where_the_system_says_so(monkeypatch: pytest.MonkeyPatch):
    found = line_bytes()
    assert found is None or found & (found - 1) == 0
    monkeypatch.setattr(counters, "LINE", "/nowhere")
    assert line_bytes() is None
