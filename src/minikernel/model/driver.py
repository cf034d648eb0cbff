"""A kernel's launch whose arguments are laid out once: what differs between calls is two addresses and the stream.

The CUDA driver takes a launch's arguments as an array of their addresses. Laying them out anew takes the host several
times as long as the driver needs for the launch itself, and a short kernel is over by then.
"""

import ctypes
import functools
import threading
from collections.abc import Sequence
from ctypes import c_uint, c_void_p
from typing import Any

import torch
from torch import Tensor

INVALID_CONTEXT = 201  # the driver's code: this thread has not used the GPU


class Launch:
    """A launch of one kernel on one GPU, for any memory that it reads from and writes to.

    Args:
        kernel: CuPy's handle of it.
        device: number of the CUDA device that it is loaded on.
        grid, threads: blocks, and threads of each.
        shared_bytes: dynamic shared memory of a block.
        before, after: the arguments before and behind the addresses of what is read and what is written, as ctypes'
            values; addresses may be int.
    """

    def __init__(
        self, kernel: Any, device: int, grid: int, threads: int, shared_bytes: int, before: Sequence, after: Sequence
    ) -> None:
        self.device = device
        # The two that change between calls: their values are set in place, and the array of addresses stays as it is.
        self._read, self._written = c_void_p(), c_void_p()
        given = (*before, self._read, self._written, *after)
        self._values = tuple(c_void_p(each) if isinstance(each, int) else each for each in given)
        # the driver is given where the values lie, not the values; `_values` keeps them alive
        self._addresses = (c_void_p * len(given))(*map(ctypes.addressof, self._values))
        self._sizes = (kernel.ptr, grid, 1, 1, threads, 1, 1, shared_bytes)
        self._where = ctypes.addressof(self._addresses)
        self._lock = threading.Lock()  # ctypes lets other threads run while the driver is at work

    @property
    def fields(self) -> tuple[int, int, int, int, list[int], list[int]]:
        """The kernel's address, blocks, threads of each, bytes of each; the arguments before and after, as integers."""
        bits = [int.from_bytes(bytes(value), "little") for value in self._values]  # type: ignore[call-overload]
        function, blocks, _, _, threads, _, _, shared_bytes = self._sizes
        # by identity: ctypes' values do not compare equal otherwise
        moving = self._values.index(self._read)
        return function, blocks, threads, shared_bytes, bits[:moving], bits[moving + 2 :]

    def __call__(self, read: Tensor, written: Tensor) -> None:
        """Launch it on torch's current stream of its device.

        Raises:
            RuntimeError: the driver refuses the launch.
        """
        if torch.cuda.current_device() != self.device:
            with torch.cuda.device(self.device):
                return self(read, written)
        # the raw address: torch.cuda.current_stream() would make an object for each launch
        stream = torch._C._cuda_getCurrentRawStream(self.device)
        with self._lock:
            self._read.value, self._written.value = read.data_ptr(), written.data_ptr()
            status = library().cuLaunchKernel(*self._sizes, stream, self._where, None)
            # A thread that has never used the GPU has no context. Found
            # out by failing, as asking each time would cost more.
            if status == INVALID_CONTEXT:
                torch.cuda.current_stream(self.device).query()  # torch's context becomes the thread's
                status = library().cuLaunchKernel(*self._sizes, stream, self._where, None)
        if status:
            raise RuntimeError(f"the CUDA driver refuses the launch of a kernel: {_name_of(status)}")


@functools.cache
def library() -> Any:
    """The CUDA driver, as far as it is called here."""
    found = ctypes.CDLL("libcuda.so.1")
    # Without types ctypes would pass 64-bit addresses as C ints.
    found.cuLaunchKernel.argtypes = (c_void_p, *[c_uint] * 7, *[c_void_p] * 3)
    found.cuGetErrorName.argtypes = (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
    return found


def _name_of(status: int) -> str:
    name = ctypes.c_char_p()
    library().cuGetErrorName(status, ctypes.byref(name))
    return (name.value or b"an error without a name").decode()
