"""A command under the supervisor: what it prints, what it inherits, and how much memory there is for it."""

import os
import subprocess
import sys

import pytest

from minilab.sandbox.process import Confined, Ending, _left_by_cgroups, free_memory, memory_limit, signal_name


def test_what_it_prints_and_inherits():
    reading, writing = os.pipe()
    command = f"import os; print(os.environ['SAID']); os.write({writing}, b'inherited')"
    environment = {**os.environ, "SAID": "printed"}
    with Confined([sys.executable, "-c", command], 0, environment, (writing,), subprocess.PIPE) as confined:
        assert confined.wait(30) == Ending(0)
        assert confined.printed is not None
        assert confined.printed.read() == b"printed\n"
    os.close(writing)
    assert os.read(reading, 100) == b"inherited"
    os.close(reading)


def test_it_may_be_waited_for_again():
    with Confined([sys.executable, "-c", ""]) as confined:
        assert confined.wait(30) == confined.wait(0) == Ending(0)


def test_a_limit_beyond_any_timer_is_one():
    with Confined([sys.executable, "-c", ""]) as confined:
        assert confined.wait(1e300) == Ending(0)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_memory_that_is_free_is_known():
    assert 1 << 26 < memory_limit() < free_memory()


def test_signals_have_names():
    assert signal_name(-11) == "SIGSEGV"
    assert signal_name(-1000) == "signal 1000"


def test_what_a_cgroup_leaves_counts(tmp_path):
    one, two = tmp_path / "memory/job", tmp_path / "user/job"
    for folder, names in ((one, ("limit_in_bytes", "usage_in_bytes")), (two, ("max", "current"))):
        folder.mkdir(parents=True)
        for name, value in zip(names, (1000, 400), strict=True):
            (folder / f"memory.{name}").write_text(f"{value}\n")
    (tmp_path / "user/memory.max").write_text("max\n")
    assert _left_by_cgroups("4:memory:/job\n3:cpuset:/\n", tmp_path) == [600]
    assert _left_by_cgroups("0::/user/job\n", tmp_path) == [600]
    assert _left_by_cgroups("0::/elsewhere\n", tmp_path) == []
