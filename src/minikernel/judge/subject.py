"""One kernel as the judge sees it: inputs laid into shared memory, results taken out of it and compared here.

What the kernel's process says of a result, its shape and dtype, must be what was asked for; whether the numbers are
right is worked out in this process, from the judge's own copy of the input.
"""

import math
from typing import Any, NamedTuple

import torch

from minikernel.judge.client import Failed, KernelProcess
from minikernel.judge.kinds import wrong_form
from minikernel.judge.memory import ALIGNED, Block, Layout, aligned, contiguous
from minikernel.judge.operation import LARGE, SOFTMAX, Operation
from minikernel.reasons import wrong

FILLER = 0x5A  # in the gaps of an input, where nobody may write
GIVES = {torch.int64: "int64"}  # of operands that are no numbers to compute with, and keep their dtype


class Laid(NamedTuple):
    """What a kernel is called on, as it lies in shared memory.

    Attributes:
        x, more: the layouts of the input and of the operands that go with it.
        values: what they held, the input first: the judge's own copies, of the dtype that the kernel sees.
    """

    x: Layout
    more: list[Layout]
    values: list[torch.Tensor]


class Subject:
    """A kernel in a process, under a name.

    Args:
        process: where it is loaded.
        name: what it was loaded as.
        tolerance: largest error allowed.
        dtype: `float32`, `bfloat16` or `float16`.
        operation: what it computes.
    """

    def __init__(
        self,
        process: KernelProcess,
        name: str,
        tolerance: float,
        dtype: str = "float32",
        operation: Operation = SOFTMAX,
    ) -> None:
        self.process, self.name, self.tolerance, self.dtype = process, name, tolerance, dtype
        self.operation = operation
        self.seconds = 0.0  # that the last call took, by the judge's clock
        self._block: Block | None = None
        self._results = 0  # bytes from the block's beginning to results

    def lay(self, x: torch.Tensor) -> Laid:
        """Write an input into the shared memory, with its strides and its offset from an aligned address, and behind it
        the operands that go with it.

        Args:
            x: float32 on the CPU.
        """
        size = getattr(torch, self.dtype).itemsize
        operands = self.operation.operands(x)
        # The case's whole storage in the kernel's dtype: strides and offset stay, and with them the gaps.
        storage = x.untyped_storage().nbytes() // x.element_size() * size
        layouts = [Layout(list(x.shape), list(x.stride()), x.storage_offset() * size, self.dtype)]
        # Each operand begins on a page with a page of gap before it: a write past one's end is seen in the gap.
        end = aligned(storage)
        for one in operands:
            dtype = GIVES.get(one.dtype, self.dtype)
            layouts.append(contiguous(one.shape, end + ALIGNED, dtype))
            end += ALIGNED + aligned(one.numel() * getattr(torch, dtype).itemsize)
        self._results = end + ALIGNED
        needed = self._results + x.numel() * size
        if self._block is None or needed > self._block.n_bytes:
            # 4 MB at least, so that the many small cases share one block
            self._block = Block(max(needed, 1 << 22))
            self.process.use(self._block)
            # both sides have it mapped by now
            self._block.close()
        self._gaps().fill_(FILLER)
        values = [
            self._block.tensor(layout).copy_(given).clone()
            for layout, given in zip(layouts, (x, *operands), strict=True)
        ]
        return Laid(layouts[0], layouts[1:], values)

    def call(self, laid: Laid, key: int = 0, redzones: bool = False, **more: Any) -> dict:
        """Call the kernel on what lies there; its result stays in its process, under the key.

        Raises:
            Failed: it failed, or its result is of another shape or dtype.
            Gone: its process is.
        """
        answer = self.process.ask("call", name=self.name, x=laid.x, more=laid.more, key=key, redzones=redzones, **more)
        self.seconds = answer["seconds"]
        # Form first: only what has the right shape and dtype can be looked at where it is expected.
        if reason := wrong_form(answer, list(self._shape(laid)), self.dtype):
            raise self.failed(reason)
        return answer

    def result(self, laid: Laid, key: int = 0) -> torch.Tensor:
        """A kept result, in memory that held NaN before: a view, valid until the next input is laid."""
        assert self._block is not None
        size, shape = getattr(torch, self.dtype).itemsize, self._shape(laid)
        flat = self._block.tensor(Layout([shape.numel()], [1], self._results // size * size, self.dtype))
        # NaN before the result comes: what the kernel's process
        # did not copy is wrong, and not yesterday's right answer.
        flat.fill_(torch.nan)
        self.process.ask("show", key=key, start=self._results)
        return flat.view(shape)

    def judged(self, result: torch.Tensor, values: list[torch.Tensor]) -> float:
        """The error of `result` as the operation's on the judge's own copies of input and operands.

        Raises:
            Failed: it is more than the tolerance.
        """
        # a large result is compared on the kernel's device, by this process: in float64 a CPU would take long over it
        if values[0].numel() >= LARGE:
            there = torch.device(self.process.device)
            result, values = result.to(there), [value.to(there) for value in values]
        error = self.operation.error(result, *values)
        # not `>`: a NaN is above no tolerance
        if not error <= self.tolerance:
            has_number = math.isfinite(error)
            reason = wrong(error, self.tolerance) if has_number else self.operation.in_kind(result, *values)
            raise self.failed({**reason, **self.operation.mistake(result, *values)})
        return error

    def error(self, x: torch.Tensor, redzones: bool = False, **more: Any) -> float:
        """Lay an input, call the kernel on it, and hold its result, what it was given and the gaps in that against what
        they should be; the error."""
        laid = self.lay(x)
        before = self._gaps().clone()
        self.call(laid, redzones=redzones, **more)
        error = self.judged(self.result(laid), laid.values)
        changed = int((self._gaps() != before).sum())
        # Two kinds of damage: the operand's own values, or only what lies between them.
        if changed and any(map(self._differs, [laid.x, *laid.more], laid.values)):
            raise self.failed({"code": "changed_input"})
        if changed:
            place, owner = {"code": "between"}, {"code": "input"}
            raise self.failed({"code": "wrote_outside", "bytes": changed, "place": place, "owner": owner})
        return error

    def failed(self, reason: dict) -> Failed:
        """The kernel's failure where the process now is."""
        return Failed({**reason, "at": self.process.at})

    def _shape(self, laid: Laid) -> torch.Size:
        return self.operation.shape(torch.Size(laid.x.shape))

    def _differs(self, layout: Layout, value: torch.Tensor) -> bool:
        """Whether what lies there is no longer the value that was laid, NaN for NaN."""
        assert self._block is not None
        return not torch.equal(self._block.tensor(layout).nan_to_num(0.5), value.nan_to_num(0.5))

    def _gaps(self) -> torch.Tensor:
        """The bytes of the block before its results: what the kernel is given, the gaps in it, a page after it."""
        assert self._block is not None
        return self._block.tensor(Layout([self._results // 4], [1], 0, "float32")).view(torch.uint8)
