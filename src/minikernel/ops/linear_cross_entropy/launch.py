"""Launches a Triton kernel again without asking Triton again which compiled one is meant.

Triton's own launch looks at every argument, option and global variable each time, which takes the host longer than
these kernels take a GPU at small sizes. What decides is known here: the constants and options, which are one object's;
a pointer's dtype and whether 16 divides it; and whether a number fits in 32 bits.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton

from minikernel.ops import softmax_cuda
from minikernel.ops.softmax_triton_rows import FUSION

HERE: AbstractContextManager = nullcontext()


class Launch:
    """One kernel with its constants and options. Arguments that Triton specializes must be the same at each call.

    Pointers may differ in dtype and alignment, and numbers in value where the kernel says `do_not_specialize`.
    """

    def __init__(self, kernel: Any, **options: Any) -> None:
        self.kernel = kernel
        self.options = options
        # constants come last in every kernel here, and a compiled kernel takes them and does nothing with them
        self.constants = tuple(options[name] for name in kernel.arg_names if name in options)
        self.compiled: dict[tuple, Any] = {}

    def __call__(self, grid: tuple[int, int, int], *arguments: Any) -> None:
        """Launch on the current device, which is that of the first argument, and on its current stream."""
        device = arguments[0].get_device()
        key: list[Any] = [device]
        values: list[Any] = []
        for argument in arguments:
            kind = type(argument)
            if kind is int:
                key.append(argument >> 31)  # 0 or -1 where 32 bits hold it
            elif kind is not float:
                key.append(argument.dtype)
                argument = argument.data_ptr()
                if argument & 15:
                    key.append(None)
            values.append(argument)
        compiled = self.compiled.get(tuple(key))
        if compiled is None:
            with on_device_of(arguments[0]):
                compiled = self.kernel[grid](*arguments, **self.options, **FUSION)
            if compiled is not None:  # the interpreter compiles nothing
                self.compiled[tuple(key)] = compiled
            return
        stream = triton.runtime.driver.active.get_current_stream(device)
        # as `compiled[grid]` does it, but for hooks of profilers, which are none
        compiled.run(
            *grid, stream, compiled.function, compiled.packed_metadata, None, None, None, *values, *self.constants
        )


def on_device_of(x: torch.Tensor) -> AbstractContextManager:
    """Make the device of `x` current where it is not: Triton launches on that one, wherever its tensors are."""
    if not x.is_cuda or torch.cuda.current_device() == x.get_device():
        return HERE
    return torch.cuda.device_of(x)


def multiprocessors(like: torch.Tensor) -> int:
    """Of the device of a tensor; of an H100 and an H200, where Triton is interpreted."""
    return softmax_cuda.multiprocessors(like.get_device()) if like.is_cuda else 132
