"""Run a command, and let it rest while a CPU of this machine divides wrongly: `python on_sound_cpus.py COMMAND ...`.

A virtual machine may be put, for some seconds, on a core whose divider errs in the last bits. What is trained then is
not what is trained a second time, and tests of equal bits fail by chance. So a process on each CPU divides numbers
whose quotients are known from whole numbers, many times a second; where one is wrong, the command and all that it has
started are frozen, through a control group, until they have been right for a while. What was seen is printed at the
end; on a machine that divides rightly that is nothing. The exit status is the command's. Without root, or without
control groups of version 2, the command runs unwatched.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

PAIRS, BITS = 4096, 53
EVERY_SECONDS, SOUND_SECONDS = 0.002, 0.3
LONGEST_SECONDS = 30  # of a rest: what divides wrongly for longer may do so for good
PRIORITY = 50


def groups() -> list[Path]:
    """New control groups, a CPU each, one within the other: what freezes one freezes those within it.

    Raises:
        OSError: none can be made here.
    """
    mounted = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
    if not (roots := [one for one in mounted if (one / "cgroup.controllers").exists()]):
        raise FileNotFoundError("no control groups of version 2")  # elsewhere this would write plain files
    group = roots[0]
    made = []
    for cpu in sorted(os.sched_getaffinity(0)):
        group /= f"cpu{cpu}-{os.getpid()}"
        group.mkdir()
        made.append(group)
    return made


def watch(cpu: int, group: Path) -> None:
    """Divide on one CPU until SIGTERM comes or the parent is gone, and freeze the group where it is done wrongly."""
    parent = os.getppid()
    os.sched_setaffinity(0, {cpu})
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    drawn = random.Random(cpu)
    whole = [(drawn.getrandbits(BITS) | 1, drawn.getrandbits(BITS) | 1) for _ in range(PAIRS)]
    numerators, denominators = (np.array(numbers, dtype=np.float64) for numbers in zip(*whole, strict=True))
    # of whole numbers this long Python computes the quotient, rounded once, without the divider
    quotients = np.array([(a << 64) / (b << 64) for a, b in whole])
    times, seconds, ended = 0, 0.0, False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    def is_sound() -> bool:
        time.sleep(EVERY_SECONDS)
        return ended or os.getppid() != parent or np.array_equal(numerators / denominators, quotients)

    signal.signal(signal.SIGTERM, end)
    while not ended and os.getppid() == parent:
        if is_sound():
            continue
        (group / "cgroup.freeze").write_text("1")
        began = last_wrong = time.monotonic()
        while time.monotonic() < min(last_wrong + SOUND_SECONDS, began + LONGEST_SECONDS):
            if not is_sound():
                last_wrong = time.monotonic()
        (group / "cgroup.freeze").write_text("0")
        times, seconds = times + 1, seconds + time.monotonic() - began
        while not is_sound():
            pass
    if times:
        print(f"CPU {cpu} divided wrongly {times} times; the command rested then, for {seconds:.0f} s in all.")


def main(command: list[str]) -> int:
    """Run the command; its exit status."""
    try:
        nested = groups()
    except OSError:
        return subprocess.call(command)
    watching = []
    for cpu, group in zip(sorted(os.sched_getaffinity(0)), nested, strict=True):
        if not (child := os.fork()):
            watch(cpu, group)
            sys.stdout.flush()
            os._exit(0)
        watching.append(child)
    inside = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(nested[-1] / "cgroup.procs"), *command]
    status = subprocess.call(inside)
    for child in watching:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    for group in reversed(nested):
        with suppress(OSError):  # something that the command has started is still in it
            group.rmdir()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
