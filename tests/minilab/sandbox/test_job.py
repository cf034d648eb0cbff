"""A job with somebody else's code in it: one sentence with its name for each way of ending, and nothing beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

JOB = """
import os, sys, time, ctypes
from pathlib import Path
from minilab import LabError
from minilab.script import run

def main(job):
    print("at work")
    {does}
    Path(job.output.made).write_text("made")

if __name__ == "__main__":
    run(main, globals().get("snakemake"))
"""
SUBJECT = "model mine (mine.py: make) on cpu"


def ran(folder: Path, does: str, seconds: float = 60) -> tuple[subprocess.CompletedProcess, Path, str]:
    """A job that does something, how it ended, its output and its log."""
    (folder / "job.py").write_text(JOB.format(does=does))
    limits = f"{{name: mine, subject: '{SUBJECT}', seconds: {seconds}, knob: compile.time_limit_seconds}}"
    command = [sys.executable, "job.py", f"params.users_code={limits}", "output.made=made", "log=job.log"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ, timeout=120)
    return done, folder / "made", (folder / "job.log").read_text()


def test_one_that_does_its_work(tmp_path: Path):
    done, made, _ = ran(tmp_path, "pass")
    assert (done.returncode, done.stdout, made.read_text()) == (0, "at work\n", "made")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("raise ValueError('boom')", f"{SUBJECT} failed with ValueError: boom; the log has its traceback."),
        ("raise LabError('no good.')", f"{SUBJECT}: no good."),
        ("raise LabError('model mine is no good.')", "model mine is no good."),
        ("sys.exit(0)", f"{SUBJECT} failed with SystemExit: 0; the log has its traceback."),
        ("os._exit(0)", f"{SUBJECT} ended its process with exit status 0; code of yours must return."),
        ("ctypes.string_at(0)", f"{SUBJECT} crashed its process (SIGSEGV); the log has where it was."),
        (
            "raise OSError(28, 'No space left on device')",
            f"{SUBJECT}: the disk is full (No space left on device); nothing half-written is left, so mend that and "
            "run the same command again.",
        ),
    ],
)
def test_one_that_does_not(tmp_path: Path, does: str, said: str):
    done, made, log = ran(tmp_path, does)
    assert done.returncode == 1
    assert done.stderr == f"Error: {said}\n"
    assert f"Error: {said}" in log
    assert "Traceback" in log or "its traceback" not in said
    assert not made.exists()


def test_one_that_hangs_is_ended_and_the_log_has_where_it_was(tmp_path: Path):
    done, made, log = ran(tmp_path, "time.sleep(621)", seconds=4)
    said = f"Error: {SUBJECT} did not end within 4 seconds, the limit that compile.time_limit_seconds sets"
    assert done.stderr.startswith(said)
    assert "in main" in log
    assert not made.exists()
