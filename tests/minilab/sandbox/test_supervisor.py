"""Nothing of somebody's code outlives the lab, however either of them ends; real processes, really killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from minilab.sandbox import supervisor
from minilab.sandbox.process import Confined, Ending

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
PYTHON = sys.executable
# Says its own number and its daemon's, which has a session of its own and a parent that is gone.
WITH_DAEMON = """
import os, subprocess, time
subprocess.run("setsid sh -c 'sleep 611 & echo $! > daemon'", shell=True)
open("ready", "w").write(str(os.getpid()))
time.sleep(612)
"""
LAB = """
import sys, time
from minilab.sandbox.process import Confined
with Confined([sys.executable, "-c", {command!r}]) as confined:
    time.sleep(613)
"""


def ended(pid: int, within: float = 20) -> bool:
    """Whether a process ends soon, or has."""
    until = time.monotonic() + within
    while True:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.02)


def started(folder: Path) -> list[int]:
    """The numbers of `WITH_DAEMON` and of its daemon, once both are there."""
    for _ in range(1000):
        if (folder / "ready").exists() and (folder / "ready").read_text():
            return [int((folder / name).read_text()) for name in ("ready", "daemon")]
        time.sleep(0.02)
    raise AssertionError("it does not start")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_all_ends_with_a_lab_whose_group_is_killed(tmp_path: Path, number: int):
    lab = subprocess.Popen([PYTHON, "-c", LAB.format(command=WITH_DAEMON)], cwd=tmp_path, start_new_session=True)
    pids = started(tmp_path)
    assert not any(ended(pid, 0.1) for pid in pids)
    os.killpg(lab.pid, number)
    lab.wait()
    assert all(ended(pid) for pid in pids)


def test_a_daemon_ends_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with Confined([PYTHON, "-c", WITH_DAEMON.replace("time.sleep(612)", "")]) as confined:
        assert confined.wait(30) == Ending(0)
    assert all(ended(pid, 0) for pid in started(tmp_path))


def test_a_daemon_ends_when_the_lab_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with Confined([PYTHON, "-c", WITH_DAEMON]) as confined:
        pids = started(tmp_path)
        assert confined.wait(0.1) is None
        confined.end()
        assert all(ended(pid, 0) for pid in pids)


def test_the_command_ends_with_a_supervisor_that_is_killed():
    command = "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(614)"
    with Confined([PYTHON, "-c", command]) as confined:
        assert confined.wait(30) == Ending(None)


def test_a_command_whose_supervisor_is_already_gone_does_not_begin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "getppid", lambda: 1)
    child = supervisor.start([PYTHON, "-c", f"open({str(tmp_path / 'began')!r}, 'w')"])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert not (tmp_path / "began").exists()


def test_a_command_outlives_the_thread_that_started_it():
    made: list[Confined] = []
    thread = threading.Thread(target=lambda: made.append(Confined([PYTHON, "-c", "import time; time.sleep(0.5)"])))
    thread.start()
    thread.join()
    with made[0] as confined:
        assert confined.wait(30) == Ending(0)


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("import os; os._exit(7)", Ending(7)),
        ("import os; os.abort()", Ending(-signal.SIGABRT)),
        ("import time; eaten = bytearray(1 << 28); time.sleep(615)", Ending(None, "memory")),
    ],
)
def test_how_a_command_ended_is_known(command: str, ending: Ending):
    with Confined([PYTHON, "-c", command], memory_bytes=1 << 27) as confined:
        assert confined.wait(60) == ending


def test_a_command_that_multiplies_is_ended():
    with Confined([PYTHON, "-c", "import os, time\nwhile True: os.fork() or time.sleep(616)"]) as confined:
        assert confined.wait(60) == Ending(None, "processes")


def test_what_somebody_elses_process_holds_does_not_count():
    assert os.getpid() not in supervisor.descendants()
    assert supervisor.memory_of([]) == 0
    assert supervisor.memory_of([os.getpid()]) > 1 << 20
