"""Memory that the judge and a kernel's process both see: inputs at its beginning, results at its end.

It is a file without a name, sealed against being cut, so that no kernel can take it away from under the judge.
"""

import fcntl
import mmap
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import torch

ALIGNED = 4096  # bytes: a page


class Layout(NamedTuple):
    """Where a tensor lies in a block: plain data, so that it can be sent.

    Attributes:
        shape, stride: in elements.
        start: bytes from the block's beginning to the first element.
        dtype: `float32`, `bfloat16` or `float16`.
    """

    shape: Sequence[int]
    stride: Sequence[int]
    start: int
    dtype: str


def contiguous(shape: Sequence[int], start: int, dtype: str) -> Layout:
    """The layout of a contiguous tensor."""
    # from the last axis on; an axis of length 0 counts as one, as torch has it
    stride: list[int] = []
    size = 1
    for length in reversed(shape):
        stride.insert(0, size)
        size *= max(length, 1)
    return Layout(list(shape), stride, start, dtype)


def aligned(n_bytes: int) -> int:
    """So many bytes, up to a whole page."""
    return -(-n_bytes // ALIGNED) * ALIGNED


class Block:
    """A piece of shared memory.

    Args:
        n_bytes: its size; of a new one where `descriptor` is None.
        descriptor: of a block that another process made.
    """

    def __init__(self, n_bytes: int, descriptor: int | None = None) -> None:
        # at least a page: nothing can be mapped of an empty file
        self.n_bytes = max(aligned(n_bytes), ALIGNED)
        self.descriptor = _new_file(self.n_bytes) if descriptor is None else descriptor
        # Shared pages: what one process writes the other sees, without a copy and without a message.
        self._bytes = torch.frombuffer(mmap.mmap(self.descriptor, self.n_bytes), dtype=torch.uint8)

    def tensor(self, layout: Layout) -> torch.Tensor:
        """The tensor that lies there; writing to it writes to the block."""
        dtype = getattr(torch, layout.dtype)
        words = self._bytes[layout.start :] if layout.start else self._bytes
        # whole elements only, as `view` asks for
        words = words[: len(words) // dtype.itemsize * dtype.itemsize].view(dtype)
        return words.as_strided(tuple(layout.shape), tuple(layout.stride))

    def close(self) -> None:
        """Give the descriptor back; the memory itself lives as long as somebody maps it."""
        os.close(self.descriptor)


def _new_file(n_bytes: int) -> int:
    if not hasattr(os, "memfd_create"):  # not Linux
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, n_bytes)
        return descriptor
    # without a name in any folder: it is gone when the last process that maps it is
    descriptor = os.memfd_create("judge", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, n_bytes)
    # Cut shorter by one side, touching its pages would kill the other (SIGBUS); grown, it could fill the memory.
    with suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
