"""Looks for autograd's threads, which a fork of their process lacks: torch refuses every backward pass in it.

Autograd starts a thread for each device of an accelerator at the first backward pass of a process; without an
accelerator too, where torch is a build for CUDA: eight devices stand in for those that are not there as soon as
anything has been traced. Nothing here imports torch.
"""

from contextlib import suppress
from pathlib import Path

NAME = "pt_autograd"  # how the names of its threads begin
THREADS = "autograd has started threads, without which a forked process can run no backward pass"
REFUSAL = "autograd's threading in combination with fork-based multiprocessing"  # within what torch raises there


def has_started_threads() -> bool:
    """Whether this process has threads of autograd's; False where the system does not tell of threads."""
    for name in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # a thread that has ended meanwhile
            if name.read_text().startswith(NAME):
                return True
    return False


def is_refused(error: BaseException | None) -> bool:
    """Whether an exception, or one that it came of, is torch's refusal of a backward pass in a forked process."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if REFUSAL in str(error):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
