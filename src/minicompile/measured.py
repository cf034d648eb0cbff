"""The clock of every call that is timed: its seconds, until the device is done."""

import time
from collections.abc import Callable

import torch


def synchronise() -> None:
    """Wait for the GPU, where this process uses one."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def seconds_of(call: Callable[[], object]) -> float:
    """Call once; the seconds until the device is done."""
    synchronise()
    began = time.perf_counter()
    call()
    synchronise()
    return time.perf_counter() - began
