"""Limits how long a compile may take.

In the main thread of a process that has `SIGALRM`, the alarm raises `TimeLimitExceeded` at the next Python
instruction. That ends the waits a compile spends its time in: `subprocess` kills the C++ compiler it was
waiting for, and a wait for a pool of compile workers is left (what the workers have begun, they finish).

What it cannot stop: C code that does not return, such as a loop inside an extension, and any other thread
than the main one, in which Python lets no signal handler run. There a watchdog logs, once, that the limit
has passed and where the thread stands; the time taken is checked when the work returns, and counts as a
failure then. Only a process that may be killed stops those, and that decision is the caller's.
"""

import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from minicompile.safe.failures import TimeLimitExceeded


def _can_interrupt() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextmanager
def time_limit(seconds: float | None, what: str, logger: logging.Logger) -> Iterator[None]:
    """Raise `TimeLimitExceeded` when the block takes more than `seconds`; see the module for what can be stopped.

    An alarm of the caller's that was already running is put back with the time it has left.
    """
    if seconds is None:
        yield
        return
    sentence = f"{what} took longer than its limit of {seconds:g} s; raise time_limit_seconds, or compile less."
    started = time.monotonic()
    thread = threading.get_ident()

    def say_stuck() -> None:
        frame = sys._current_frames().get(thread)
        place = "".join(traceback.format_stack(frame)[-3:]) if frame else ""
        logger.error("%s It cannot be interrupted where it stands:\n%s", sentence, place)

    def interrupt(_signal: int, _frame: object) -> None:
        raise TimeLimitExceeded(sentence, seconds)

    interruptible = _can_interrupt()
    # A second later than the alarm: it speaks only where the alarm could not act.
    watchdog = threading.Timer(seconds + 1 if interruptible else seconds, say_stuck)
    watchdog.daemon = True
    watchdog.start()
    if interruptible:
        handler = signal.signal(signal.SIGALRM, interrupt)
        left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        watchdog.cancel()
        if interruptible:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            if left:
                signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - started), 1e-6), interval)
    if time.monotonic() - started > seconds:
        raise TimeLimitExceeded(sentence, seconds)
