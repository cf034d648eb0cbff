"""Keep GPU jobs of one machine apart, those of different workflows included, by a lock on a file.

Snakemake's own limit (`resources: gpu=1` in a profile) holds within one workflow. Two clones, or two users, on one
workstation would still ruin each other's timings, so a job also takes an advisory lock (flock) on a file of the
machine. The operating system releases it when the process ends, however it ends. On a cluster the scheduler gives each
GPU to one job, and profiles/slurm names no lock.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minilab.errors import LabError

log = logging.getLogger("minilab")


@contextmanager
def gpu_lock(lock: str | Path) -> Iterator[None]:
    """Wait until no other process of this machine holds `lock`, then hold it during the block.

    Args:
        lock: a file that everybody on the machine can reach, on a local disk; it is made when it is not there, stays
            empty, and may belong to another user.

    Raises:
        LabError: the file can be neither opened nor made.
    """
    handle = _open(Path(lock))
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another job on this machine holds the GPU (%s); waiting for it to end", lock)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open(lock: Path) -> int:
    # First without O_CREAT: Linux refuses that on another user's file in a sticky folder such as /tmp.
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_CREAT | os.O_EXCL, os.O_RDONLY):
        try:
            return os.open(lock, flags, 0o644)
        except OSError as error:
            reason = error
            if not isinstance(error, (FileNotFoundError, FileExistsError)):
                break
    raise LabError(
        f"the lock {lock} that keeps GPU jobs apart cannot be opened ({reason.strerror}); name another file as "
        f"gpu_lock in the profile's default-resources."
    )
