"""Reductions and scans of Triton's interpreter, whole rows at a time, where it combines values one by one itself.

Its own way takes a function's call for each value: most of the time of a kernel with a softmax in it.
"""

import numpy
from triton import language as tl
from triton.runtime.interpreter import ReduceOps, ScanOps


def _combined(ops: ReduceOps | ScanOps, first: list, second: list, dtypes: list) -> list:
    """What the kernel's function makes of two slices of each operand."""
    given = [
        ops.to_tensor(numpy.ascontiguousarray(one), dtype)
        for one, dtype in zip(first + second, dtypes * 2, strict=True)
    ]
    made = ops.combine_fn.fn(*given)
    made = made if isinstance(made, tuple) else (made,)
    parts = [one.handle.data if isinstance(one, tl.tensor) else one for one in made]
    return [numpy.broadcast_to(numpy.reshape(part, numpy.shape(like)) if numpy.size(part) == numpy.size(like) else part,
                               numpy.shape(like)).astype(like.dtype)
            for part, like in zip(parts, first, strict=True)]  # fmt: skip


def reduced(self: ReduceOps, operands: tuple) -> list:
    """Neighbours along the axis are combined until one is left: the order stays, for what does not commute."""
    flat, axis = self.unravel(operands, self.axis)
    dtypes, rank = [one.dtype for one in operands], operands[0].handle.data.ndim
    parts = [numpy.moveaxis(one.handle.data, axis, 0) for one in flat]
    while len(parts[0]) > 1:
        parts = _combined(self, [one[::2] for one in parts], [one[1::2] for one in parts], dtypes)
    axes = (axis if self.axis is not None else tuple(range(rank))) if self.keep_dims else ()
    found = (numpy.expand_dims(one[0], axes) if axes != () else one[0] for one in parts)
    return [self.to_tensor(one, dtype) for one, dtype in zip(found, dtypes, strict=True)]


def scanned(self: ScanOps, operands: tuple) -> list:
    """Each place along the axis is combined with what has come of those before it."""
    dtypes = [one.dtype for one in operands]
    found = [numpy.moveaxis(one.handle.data, self.axis, 0).copy() for one in operands]
    for place in range(1, len(found[0])):
        made = _combined(self, [one[place - 1] for one in found], [one[place] for one in found], dtypes)
        for one, values in zip(found, made, strict=True):
            one[place] = values
    made = (numpy.ascontiguousarray(numpy.moveaxis(one, 0, self.axis)) for one in found)
    return [self.to_tensor(one, dtype) for one, dtype in zip(made, dtypes, strict=True)]


def install() -> None:
    """Let the interpreter do it so."""
    ReduceOps.generic_reduce, ScanOps.generic_scan = reduced, scanned
