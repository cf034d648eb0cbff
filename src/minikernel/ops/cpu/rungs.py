"""Launches the CPU's rungs, `loop`, `vectors`, `threads` and `streaming`, each a .cpp file: float32 tensors on the CPU.

As many threads as torch uses (`torch.get_num_threads`) share the rows, from `threads` on. No gradient is recorded.
"""

import ctypes
import functools
from collections.abc import Callable

import torch

from minikernel.ops.cpu.build import built
from minikernel.ops.cpu.pool import POOL
from minikernel.ops.operands import readable
from minilab import LabError


@functools.cache
def function(name: str, file: str | None = None) -> Callable[..., None]:
    """A C function of a .cpp file, its own unless named: (from, to, rows, cols, threads), addresses and counts."""
    found = built(file or name).library[name]
    # Without them ctypes would pass addresses as 32-bit integers.
    found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_int]
    found.restype = None
    return found


# Times of 32,768 x 600 float32 on two threads of an AMD EPYC, 2026-11-24, rung after rung; F.softmax took 41.8 ms, a
# copy past the caches 6.3: loop 157, vectors 62.5, threads 38.2, streaming 6.2 ms.
def loop(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of `x`, one element at a time on one thread. Any shape; raises as `checked`."""
    return _called("loop", x, torch.empty_like)


def vectors(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of `x`, in vectors on one thread. Any shape; raises as `checked`."""
    return _called("vectors", x, torch.empty_like)


def threads(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of `x`, in vectors on torch's threads. Any shape; raises as `checked`."""
    return _called("threads", x, torch.empty_like)


def streaming(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis of `x` as `threads`, its result past the caches into memory that is used again.

    Any shape; raises as `checked`. The memory is used again once nothing refers to the result any more.
    """
    return _called("streaming", x, POOL.empty_like)


def streaming_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of `x` as `streaming` writes (`copy.cpp`): what no kernel can beat. Any shape; raises as `checked`."""
    return _called("copy", x, POOL.empty_like)


def checked(name: str, x: torch.Tensor) -> torch.Tensor:
    """`x` contiguous and without its gradient, a scalar as a row of one.

    Raises:
        LabError: it is not on the CPU, not float32, or not what lies at its address.
    """
    if x.device.type != "cpu" or x.dtype != torch.float32:
        raise LabError(
            f"the C++ kernel {name} takes float32 tensors on the CPU, not {x.dtype} on {x.device}; use "
            "minikernel.softmax, which gives the rest to torch."
        )
    # no gradient is recorded, and none must be asked for in silence
    x = readable(f"the C++ kernel {name}", x).detach()
    return x.contiguous() if x.dim() else x.reshape(1)


def _called(name: str, x: torch.Tensor, empty_like: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    rows = checked(name, x)
    y = empty_like(rows)
    if rows.numel():
        cols = rows.shape[-1]
        function(name)(rows.data_ptr(), y.data_ptr(), rows.numel() // cols, cols, torch.get_num_threads())
    return y.view(x.shape)


RUNGS = {rung.__name__: rung for rung in (loop, vectors, threads, streaming)}  # in the order of the ladder
