"""Launches a Triton kernel again without asking Triton again which compiled one is meant.

Triton's own launch looks at every argument, option and global variable each time, which takes the host longer than
these kernels take a GPU at small sizes. What decides is known here: the constants and options, which are one object's;
a pointer's dtype and whether 16 divides it; and whether a number fits in 32 bits.
"""

from typing import Any

import torch

from minikernel.ops import softmax_cuda
from minikernel.ops.softmax_triton_rows import FUSION


class Launch:
    """One kernel with its constants and options. Arguments that Triton specializes must be the same at each call.

    Pointers may differ in dtype and alignment, and numbers in value where the kernel says `do_not_specialize`.
    """

    def __init__(self, kernel: Any, **options: Any) -> None:
        self.kernel = kernel
        self.options = options | FUSION
        # constants come last in every kernel here, and a compiled kernel takes them and does nothing with them
        self.constants = tuple(options[name] for name in kernel.arg_names if name in options)
        self.compiled: dict[tuple, Any] = {}

    def __call__(self, grid: tuple[int, int, int], *arguments: Any) -> None:
        """Launch on the current device, which is that of the first argument, and on its current stream."""
        kinds: list[Any] = [arguments[0].get_device()]
        values: list[Any] = []
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                pointer = argument.data_ptr()
                kinds += argument.dtype, pointer & 15
                values.append(pointer)
            else:
                # 0 or -1: it fits; a float is a float
                kinds.append(argument >> 31 if isinstance(argument, int) else None)
                values.append(argument)
        key = tuple(kinds)
        compiled = self.compiled.get(key)
        if compiled is not None:
            compiled[grid](*values, *self.constants)
            return
        compiled = self.kernel[grid](*arguments, **self.options)
        if compiled is not None:  # the interpreter compiles nothing
            self.compiled[key] = compiled


def multiprocessors(like: torch.Tensor) -> int:
    """Of the device of a tensor; of an H100 and an H200, where Triton is interpreted."""
    return softmax_cuda.multiprocessors(like.get_device()) if like.is_cuda else 132
