"""The lock that keeps GPU jobs of one machine apart: held by one at a time, and gone with the process that held it."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from minilab import LabError
from minilab.gpu_lock import gpu_lock
from minilab.script import run

HOLD = """
import sys
from minilab.gpu_lock import gpu_lock
with gpu_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""
COUNT = """
import sys
from pathlib import Path
from minilab.gpu_lock import gpu_lock
counter = Path(sys.argv[2])
for _ in range(50):
    with gpu_lock(sys.argv[1]):
        counter.write_text(str(int(counter.read_text()) + 1))
"""


def start(script: str, *arguments) -> subprocess.Popen:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], **pipes)


def test_turns_do_not_overlap(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    jobs = [start(COUNT, tmp_path / "lock", counter) for _ in range(3)]
    assert [job.wait() for job in jobs] == [0, 0, 0]
    assert counter.read_text() == "150"


def test_a_job_that_waits_says_so_and_begins_when_the_holder_is_killed(tmp_path):
    lock = tmp_path / "lock"
    holder = start(HOLD, lock)
    assert holder.stdout.readline() == "held\n"
    logged = "import logging; logging.basicConfig(level=logging.INFO)\n"
    waiting = start(logged + HOLD, lock)
    assert "another job on this machine holds the GPU" in waiting.stderr.readline()
    holder.kill()
    assert waiting.stdout.readline() == "held\n"
    waiting.communicate("")


def test_a_lock_that_cannot_be_is_one_sentence(tmp_path):
    with pytest.raises(LabError, match="gpu_lock"), gpu_lock(tmp_path / "nowhere/lock"):
        pass


@pytest.mark.parametrize(("gpus", "held"), [(1, True), (0, False)])
def test_a_gpu_job_takes_the_lock_that_its_profile_names(tmp_path, gpus: int, held: bool):
    lock = tmp_path / "lock"
    job = SimpleNamespace(log=[], resources={"gpu": gpus, "gpu_lock": str(lock)})
    found = []
    run(lambda job: found.append(lock.exists()), job)
    assert found == [held]
