"""CI's tests rest while a CPU divides wrongly, and end as they would have ended by themselves."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / ".ci"
GROUPS = [Path("/sys/fs/cgroup/unified/cgroup.controllers"), Path("/sys/fs/cgroup/cgroup.controllers")]
# a machine whose CPUs divide wrongly from the second second to the fourth, as far as the script can see
WRONG = """
import sys, time
sys.path.insert(0, sys.argv[1])
import on_sound_cpus
began, right = time.monotonic(), on_sound_cpus.np.array_equal
on_sound_cpus.np.array_equal = lambda *both: not 2 < time.monotonic() - began < 4 and right(*both)
sys.exit(on_sound_cpus.main(sys.argv[2:]))
"""
TICKS = "import sys, time\nfor _ in range(60): time.sleep(0.1); print(time.monotonic())\nsys.exit(3)"


@pytest.mark.skipif(os.getuid() != 0, reason="control groups are root's")
@pytest.mark.skipif(not any(one.exists() for one in GROUPS), reason="needs control groups of version 2")
def test_a_command_rests_while_a_cpu_divides_wrongly():
    command = [sys.executable, "-c", WRONG, str(SCRIPTS), sys.executable, "-c", TICKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (3, "")
    lines = done.stdout.splitlines()
    ticks = [float(line) for line in lines if not line.startswith("CPU")]
    assert len(ticks) == 60
    assert max(later - tick for tick, later in pairwise(ticks)) > 1.9
    told = [line for line in lines if line.startswith("CPU")]
    assert len(told) == len(os.sched_getaffinity(0))
    assert all("divided wrongly" in line for line in told)


def test_without_control_groups_a_command_runs_unwatched():
    unwatched = WRONG.replace("sys.exit(", "on_sound_cpus.Path.exists = lambda path: False\nsys.exit(")
    command = [sys.executable, "-c", unwatched, str(SCRIPTS), sys.executable, "-c", "print('ran'); exit(3)"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (3, "ran\n", "")
