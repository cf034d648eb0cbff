"""The process between the lab and somebody else's code: it sees to it that nothing of that code outlives the lab.

It runs by itself, with the standard library alone: `python supervisor.py LIFE REPORT MEMORY COMMAND...`; or in a fork
of a process that has imported what the code needs (`minilab.sandbox.forks`).

- The lab holds the other end of the pipe LIFE. When that end closes, however the lab ended, the supervisor ends all. It
  has a session of its own, so a signal to Snakemake's group does not reach it first.
- The command dies with the supervisor: the kernel kills it (PR_SET_PDEATHSIG; the supervisor has one thread, to whose
  end that is tied), and it asks whether its parent is already gone, which no signal would tell.
- What the command starts, in sessions of its own or not, is adopted by the supervisor when its parent dies
  (PR_SET_CHILD_SUBREAPER) and so stays among its descendants, all of which are killed in the end.
- Memory: what all of them together hold (and no file or shared memory backs) is summed up several times a second; it is
  not limited by setrlimit, because CUDA reserves more addresses than any machine has memory.

How the command ended is written to the pipe REPORT as JSON: `status`, as `os.waitpid` gives it, null where it was ended
by request; `limit`: `memory` or `processes` where it was ended for having too much of them.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOOK_SECONDS = 0.02  # between two looks at what has ended
COUNT_SECONDS = 0.1  # between two looks at memory and processes
MAX_PROCESSES = 512  # threads not counted; torch.compile starts a few dozen
REAPING_SECONDS = 50  # a GPU takes a while to drop what a killed process was running
PAGE = os.sysconf("SC_PAGE_SIZE")


def prctl(option: int, value: int) -> None:
    """Call prctl; where there is none (it is Linux's), do without."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def start(run: Callable[[], object]) -> int:
    """Fork, and run it there; the process number of the fork."""
    supervisor = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The supervisor may have died between the fork and prctl, which then has nobody to watch.
        if os.getppid() != supervisor:
            os._exit(1)
        for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(caught, signal.SIG_DFL)
        # no core dump: it would be as large as the memory, and somebody's data
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # when the machine's memory runs out it is this that goes
        run()
    finally:
        # not sys.exit: handlers and buffers here are copies of the parent's
        os._exit(127)


def descendants() -> list[int]:
    """The processes that this one started, and those that they started, but for what has ended."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        if name.isdigit():
            with suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                # after the last bracket: a program's name may hold brackets and spaces
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state != b"Z":
                    children.setdefault(int(parent), []).append(int(name))
    found, waiting = [], [os.getpid()]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found += mine
        waiting += mine
    return found


def memory_of(pids: list[int]) -> int:
    """Bytes that these processes hold and no file or shared memory backs."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError), open(f"/proc/{pid}/statm", "rb") as file:
            resident, shared = map(int, file.read().split()[1:3])
            # Shared pages are left out, or a fork would count the libraries that it shares with its server again.
            total += PAGE * (resident - shared)
    return total


def reaped() -> dict[int, int] | None:
    """Wait status of each child, one's own or adopted, that has ended since; None when no child is left."""
    ended = {}
    try:
        # all children, the adopted too: whoever is not waited for stays a zombie
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    except ChildProcessError:
        return ended or None
    return ended


def end_all(command: int) -> None:
    """Kill whatever is left, and wait until it is gone."""
    until = time.monotonic() + REAPING_SECONDS
    while time.monotonic() < until:
        # Again and again: what is killed may have started others since the last look.
        for pid in descendants() or ([command] if not os.path.isdir("/proc/self") else []):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if reaped() is None:
            return
        time.sleep(LOOK_SECONDS / 4)


def supervise(life: int, report: int, memory: int, run: Callable[[], object]) -> None:
    """Run it in a fork until it ends, takes too much, or the lab is gone; end what is left of it, and report."""
    os.set_inheritable(life, False)
    os.set_inheritable(report, False)
    ending = watch(life, memory, run)
    with suppress(OSError):
        os.write(report, json.dumps(ending).encode())


def watch(life: int, memory: int, run: Callable[[], object]) -> dict:
    """How it ended: `status` and `limit`."""
    asked = []
    for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(caught, lambda number, frame: asked.append(number))
    # before the first child, or an orphan of it could go to init and be lost
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = start(run)
    report: dict = {"status": None, "limit": None}
    counted = 0.0
    # The one wait: it ends at once when the lab is gone, and every 20 ms to look at the child.
    while not asked and not select.select([life], [], [], LOOK_SECONDS)[0]:
        report["status"] = (reaped() or {}).get(child)
        if report["status"] is not None:
            break
        # reading /proc for all processes costs more than waiting: five times less often
        if time.monotonic() - counted > COUNT_SECONDS:
            report["limit"] = exceeded(descendants(), memory)
            if report["limit"]:
                break
            counted = time.monotonic()
    end_all(child)
    return report


def exceeded(pids: list[int], memory: int) -> str | None:
    """What these processes have too much of: `processes`, or `memory`, of which 0 bytes stand for no limit."""
    if len(pids) > MAX_PROCESSES:
        return "processes"
    return "memory" if memory and memory_of(pids) > memory else None


if __name__ == "__main__":
    LIFE, REPORT, MEMORY = map(int, sys.argv[1:4])
    supervise(LIFE, REPORT, MEMORY, lambda: os.execv(sys.argv[4], sys.argv[4:]))
