"""Run a command under the supervisor (`minilab.sandbox.supervisor`), and learn how it ended.

However the lab ends, by a signal to Snakemake's group or by `kill -9` of a job, the supervisor sees its pipe closed and
ends the command with all that it started.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from minilab.errors import LabError

SUPERVISOR = Path(__file__).with_name("supervisor.py")
SHARE_OF_MEMORY = 0.8  # of what is free when a sandbox begins
ENDING_SECONDS = 60  # for the supervisor to end all
LONGEST_SECONDS = 10 * 24 * 3600.0  # of any limit: timers take no larger number


class Ending(NamedTuple):
    """How a command ended.

    Attributes:
        status: as `subprocess` has it, negative for a signal; None where the supervisor ended it, or was ended itself.
        limit: `memory` or `processes` where it had too much of them.
    """

    status: int | None
    limit: str | None = None


def free_memory() -> int:
    """Bytes of memory that are free for this process: the machine's, or what its cgroups leave; 0 where nobody says."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
        return max(0, min([free, *_left_by_cgroups(Path("/proc/self/cgroup").read_text())]))
    return 0


def _left_by_cgroups(mine: str, mounted: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """What each cgroup around this process leaves of its limit on memory, in bytes.

    Args:
        mine: the text of `/proc/self/cgroup`, of version 1, 2 or both.
        mounted: where cgroups are mounted.
    """
    left = []
    # Every cgroup on the way up may have a limit; the tightest one counts.
    for line in mine.splitlines():
        controllers, path = line.split(":", 2)[1:]
        root = mounted / controllers if controllers else mounted
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        if controllers in ("", "memory"):
            here = root / path.strip("/")
            for folder in [here, *(parent for parent in here.parents if parent.is_relative_to(root))]:
                with suppress(OSError, ValueError):  # no limit, which reads "max", or another name inside a container
                    limit, used = (int((folder / name).read_text()) for name in names)
                    left.append(limit - used)
    return left


def memory_limit() -> int:
    """Bytes that a sandbox which begins now may hold."""
    return int(SHARE_OF_MEMORY * free_memory())


class Confined:
    """A command with limits, as a context manager: on leaving, it and all that it started have ended.

    Args:
        command: the program, by its path, and its arguments.
        memory_bytes: what it and all that it starts may hold together; 0: no limit.
        environment: its variables; this process's where None.
        keep: file descriptors that it inherits.
        output: where its stdout and stderr go, as `subprocess.Popen` takes it; None: where this process's go.

    Attributes:
        printed: what it prints, where `output` is a pipe.
    """

    printed: IO[bytes] | None

    def __init__(
        self,
        command: Sequence[str],
        memory_bytes: int = 0,
        environment: Mapping[str, str] | None = None,
        keep: Sequence[int] = (),
        output: int | None = None,
    ) -> None:
        with self._watched() as (life, report):
            self._supervisor = subprocess.Popen(
                # -I and -S: the supervisor imports nothing from the user's folder, and starts in milliseconds
                [sys.executable, "-I", "-S", str(SUPERVISOR), str(life), str(report), str(memory_bytes), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output is not None else None,
                env=environment,
                pass_fds=(life, report, *keep),
                # a signal to the lab's group is not the supervisor's: it ends by its pipe
                start_new_session=True,
            )
        self._pid, self.printed = self._supervisor.pid, self._supervisor.stdout

    @contextmanager
    def _watched(self) -> Iterator[tuple[int, int]]:
        """Make both pipes; the supervisor's ends of them are for the block."""
        # Nothing is ever written to `life`: that its other end is closed is the message, and the kernel closes it
        # however this process ends.
        life, self._life = os.pipe()
        self._report, report = os.pipe()
        self._ending: Ending | None = None
        try:
            yield life, report
        finally:
            # The supervisor has copies of its own: while the report's end stayed open here, reading it would never end.
            os.close(life)
            os.close(report)

    def _await_supervisor(self, seconds: float) -> None:
        """Wait for the supervisor's own end.

        Raises:
            subprocess.TimeoutExpired: it does not end.
        """
        self._supervisor.wait(seconds)

    def fileno(self) -> int:
        """A descriptor that can be read once the command has ended, for `select`."""
        return self._report

    def wait(self, seconds: float) -> Ending | None:
        """Wait for the command's end, at most so long; None while it runs."""
        until = time.monotonic() + min(seconds, LONGEST_SECONDS)
        while self._ending is None:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._report], [], [], left)[0]:
                return None
            self._ending = self._read()
        return self._ending

    def end(self) -> Ending:
        """End the command, if it has not ended, and all that it started.

        Raises:
            LabError: something of it cannot be ended, so that nothing measured beside it could be trusted.
        """
        # Closing the pipe is the request: the supervisor sees it within its next look.
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        ending = self.wait(ENDING_SECONDS)
        try:
            self._await_supervisor(ENDING_SECONDS if ending is None else 5)
        except subprocess.TimeoutExpired:
            raise LabError(
                f"process {self._pid}, or one that it started, cannot be ended, and nothing can be measured "
                "beside it; free the device, then mend your code or take it out of the configuration."
            ) from None
        return ending or Ending(None)

    def __enter__(self) -> "Confined":
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self.end()
        finally:
            os.close(self._report)

    def _read(self) -> Ending:
        """The supervisor's report; none where it was killed itself."""
        text = b""
        # until the supervisor has closed it, by its end at the latest
        while piece := os.read(self._report, 1 << 12):
            text += piece
        try:
            report: dict[str, Any] = json.loads(text)
        except ValueError:
            return Ending(None)
        status = report["status"]
        return Ending(None if status is None else os.waitstatus_to_exitcode(status), report["limit"])


def signal_name(status: int) -> str:
    """The name of the signal behind a negative status."""
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
