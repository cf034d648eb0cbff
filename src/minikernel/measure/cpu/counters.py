"""What a processor and its operating system count: cycles, lines that no cache held, page faults, time in the system.

The processor's own counters are read through Linux's `perf_event_open`, which a virtual machine may not have and an
administrator may forbid; the rest is the process's own account (`getrusage`), which is always there. All threads count.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVENTS = {"cycles": (0, 0), "cache_misses": (0, 3)}  # type and configuration: PERF_TYPE_HARDWARE, PERF_COUNT_HW_...
SYSCALLS = {"x86_64": 298, "aarch64": 241}  # perf_event_open's number
TASKS = "/proc/self/task"  # the threads of this process
ATTRIBUTE_BYTES = 112
# without which an ordinary user may not count at all on most systems
EXCLUDE_KERNEL_AND_HYPERVISOR = 0b1100000
COUNTED, FORBIDDEN, MISSING = "counted", "forbidden", "missing"  # what became of a counter
LINE = "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size"


def opened(event: str, tasks: str = TASKS) -> tuple[list[int], str]:
    """Open a counter for every thread there is now.

    Returns:
        Its file descriptors, to be closed, and `counted`; none, and `forbidden` or `missing`.
    """
    number = SYSCALLS.get(platform.machine())
    if number is None or not Path(tasks).is_dir():
        return [], MISSING
    kind, which = EVENTS[event]
    # struct perf_event_attr: type, size, config, then sample period, sample type, read format, flags
    attributes = struct.pack("IIQQQQQ", kind, ATTRIBUTE_BYTES, which, 0, 0, 0, EXCLUDE_KERNEL_AND_HYPERVISOR)
    attributes += bytes(ATTRIBUTE_BYTES - len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    descriptors: list[int] = []
    # Thread by thread: a counter of the process would not follow the threads that it has already started.
    for task in Path(tasks).iterdir():
        descriptor = libc.syscall(number, attributes, int(task.name), -1, -1, 0)
        if descriptor < 0:
            for one in descriptors:
                os.close(one)
            return [], FORBIDDEN if ctypes.get_errno() in (errno.EACCES, errno.EPERM) else MISSING
        descriptors.append(descriptor)
    return descriptors, COUNTED


class Counters:
    """The events that can be counted here, counting since they were opened.

    Attributes:
        state: event -> `counted`, `forbidden` or `missing`.
    """

    def __init__(self, descriptors: dict[str, list[int]], state: dict[str, str]) -> None:
        self._descriptors, self.state = descriptors, state

    def read(self) -> dict[str, int | None]:
        """What has been counted so far; None for an event that is not."""
        return {
            event: sum(struct.unpack("Q", os.read(one, 8))[0] for one in descriptors) if descriptors else None
            for event, descriptors in self._descriptors.items()
        }


@contextmanager
def counting() -> Iterator[Counters]:
    """Count for the block, in the threads that are there at its beginning: call what starts threads before."""
    found = {event: opened(event) for event in EVENTS}
    try:
        yield Counters(
            {event: descriptors for event, (descriptors, _) in found.items()},
            {event: state for event, (_, state) in found.items()},
        )
    finally:
        for descriptors, _ in found.values():
            for one in descriptors:
                os.close(one)


def account() -> tuple[int, float]:
    """Page faults of this process that needed no disk, and its microseconds in the operating system, so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt, usage.ru_stime * 1e6


def line_bytes() -> int | None:
    """Bytes that a cache moves at once; None where the system does not say."""
    path = Path(LINE)
    return int(path.read_text()) if path.is_file() else None
