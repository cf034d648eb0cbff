"""Calls code that was generated in a fork of this process, on memory that both share.

What ends such a process, an access to memory that nobody has say, ends no more than that; and what it writes close by
its memory is seen, for a guard lies on either side.
"""

import faulthandler
import gc
import mmap
import os
import pickle
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import torch

from minicompile.verifying.blocks import Unable

ALIGNED = 64
GUARD = 0xA5
GUARDS = (1 << 12, 1 << 22)  # the least and the most bytes of a guard, which is else as large as what it guards


class Shared:
    """Copies of the storages of tensors, which a fork shares, with a guard before and behind each."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        storages = {one.untyped_storage().data_ptr(): one.untyped_storage() for one in tensors}
        self._places: dict[int, tuple[torch.Tensor, int, int]] = {}  # by address: its bytes, the guard's, where it is
        end = 0
        for address, storage in storages.items():
            held = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))  # type: ignore[call-overload]
            guard = -(-min(max(len(held), GUARDS[0]), GUARDS[1]) // ALIGNED) * ALIGNED
            self._places[address] = held, guard, end + guard
            end += 2 * guard + -(-len(held) // ALIGNED) * ALIGNED
        self._whole = torch.frombuffer(mmap.mmap(-1, max(end, 1)), dtype=torch.uint8).fill_(GUARD)
        for held, _, start in self._places.values():
            self._whole[start : start + len(held)] = held

    def address(self, tensor: torch.Tensor) -> int:
        """Where the copy of a tensor begins."""
        _, _, start = self._places[tensor.untyped_storage().data_ptr()]
        return self._whole.data_ptr() + start + int(tensor.storage_offset()) * tensor.element_size()

    def take_back(self) -> None:
        """Give the tensors what was written to their copies.

        Raises:
            Unable: something was written to a guard; the tensors are as they were.
        """
        for held, guard, start in self._places.values():
            behind = start + len(held)
            if bool(
                (self._whole[start - guard : start] != GUARD).any()
                | (self._whole[behind : behind + guard] != GUARD).any()
            ):
                raise Unable("out_of_bounds", "written beyond a buffer")
        for held, _, start in self._places.values():
            held.copy_(self._whole[start : start + len(held)])


def forked(function: Callable[[], Any], seconds: float) -> Any:
    """What a function returns in a fork of this process, pickled.

    Raises:
        Unable: the fork takes longer than `seconds`, or ends without an answer.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads, none of which the fork asks
        child = os.fork()
    if not child:
        _answer(function, writing)
    os.close(writing)
    said, status, in_time = b"", 0, True
    try:
        said, in_time = _heard(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):  # of a process that lets the system wait
            _, status = os.waitpid(child, 0)
    if not in_time:
        raise Unable("time")
    if not said:
        code = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        raise Unable("crashed", signal.Signals(code).name if code else "")
    return pickle.loads(said)


def _answer(function: Callable[[], Any], writing: int) -> None:
    """Be the fork: it says what it has made and ends, without what a process does at its end and without a word."""
    try:
        gc.disable()
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        said = memoryview(pickle.dumps(function()))
        while said:
            said = said[os.write(writing, said) :]
    finally:
        os._exit(0)


def _heard(reading: int, until: float) -> tuple[bytes, bool]:
    """All that is said until nobody can say more, and whether that was in time."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return b"", False
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts), True
        parts.append(part)
