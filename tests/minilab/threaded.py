"""Has a thread of the name that torch gives to autograd's as soon as it is imported; for tests of what forks."""

import ctypes
import os
import threading

IMPORTED_BY, named = os.getpid(), threading.Event()


def thread() -> None:
    ctypes.CDLL(None).prctl(15, b"pt_autograd_0")  # PR_SET_NAME
    named.set()
    threading.Event().wait()


threading.Thread(target=thread, daemon=True).start()
named.wait()


def is_new() -> bool:
    """Whether this process is one that has imported this, and no fork of it."""
    return os.getpid() == IMPORTED_BY


def writes(descriptor: int, *words: str) -> None:
    os.write(descriptor, " ".join([str(is_new()), *words]).encode())
