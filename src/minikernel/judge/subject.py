"""One kernel as the judge sees it: inputs laid into shared memory, results taken out of it and compared here.

What the kernel's process says of a result, its shape and dtype, must be what was asked for; whether the numbers are
right is worked out in this process, from the judge's own copy of the input.
"""

from typing import Any

import torch

from minikernel.judge.client import Failed, KernelProcess
from minikernel.judge.memory import ALIGNED, Block, Layout, aligned
from minikernel.proof.accuracy import softmax_error
from minikernel.proof.proof import numpy_error
from minikernel.reasons import wrong

LARGE = 1 << 20  # elements from which a result is compared a piece at a time, where the kernel runs
FILLER = 0x5A  # in the gaps of an input, where nobody may write


class Subject:
    """A kernel in a process, under a name.

    Args:
        process: where it is loaded.
        name: what it was loaded as.
        tolerance: largest relative error allowed.
        dtype: `float32`, `bfloat16` or `float16`.
    """

    def __init__(self, process: KernelProcess, name: str, tolerance: float, dtype: str = "float32") -> None:
        self.process, self.name, self.tolerance, self.dtype = process, name, tolerance, dtype
        self.seconds = 0.0  # that the last call took, by the judge's clock
        self._block: Block | None = None
        self._results = 0  # bytes from the block's beginning to results

    def lay(self, x: torch.Tensor) -> tuple[Layout, torch.Tensor]:
        """Write an input into the shared memory, with its strides and its offset from an aligned address.

        Args:
            x: float32 on the CPU.

        Returns:
            Its layout, and the tensor that lies there.
        """
        size = getattr(torch, self.dtype).itemsize
        storage = x.untyped_storage().nbytes() // x.element_size() * size
        layout = Layout(list(x.shape), list(x.stride()), x.storage_offset() * size, self.dtype)
        self._results = aligned(storage) + ALIGNED
        needed = self._results + x.numel() * size
        if self._block is None or needed > self._block.n_bytes:
            self._block = Block(max(needed, 1 << 22))
            self.process.use(self._block)
            self._block.close()
        self._gaps().fill_(FILLER)
        return layout, self._block.tensor(layout).copy_(x)

    def call(self, layout: Layout, key: int = 0, redzones: bool = False, **more: Any) -> dict:
        """Call the kernel on what lies there; its result stays in its process, under the key.

        Raises:
            Failed: it failed, or its result is of another shape or dtype.
            Gone: its process is.
        """
        answer = self.process.ask("call", name=self.name, x=layout, key=key, redzones=redzones, **more)
        self.seconds = answer["seconds"]
        if answer.get("shape") != list(layout.shape) or answer.get("dtype") != self.dtype:
            raise self.failed({"code": "wrong_in_kind"})
        return answer

    def result(self, layout: Layout, key: int = 0) -> torch.Tensor:
        """A kept result, in memory that held NaN before: a view, valid until the next input is laid."""
        assert self._block is not None
        size = getattr(torch, self.dtype).itemsize
        count = torch.Size(layout.shape).numel()
        flat = self._block.tensor(Layout([count], [1], self._results // size * size, self.dtype))
        flat.fill_(torch.nan)
        self.process.ask("show", key=key, start=self._results)
        return flat.view(tuple(layout.shape))

    def judged(self, result: torch.Tensor, x: torch.Tensor) -> float:
        """The relative error of `result` as the softmax of `x`, the judge's own copy of the input.

        Raises:
            Failed: it is more than the tolerance.
        """
        given = x.to(result.dtype)
        if x.numel() < LARGE:
            error = numpy_error(result, given)
        else:
            there, cols = torch.device(self.process.device), x.shape[-1]
            error = softmax_error(result.reshape(-1, cols).to(there), given.reshape(-1, cols).to(there))
        if not error <= self.tolerance:
            raise self.failed(wrong(error, self.tolerance))
        return error

    def error(self, x: torch.Tensor, redzones: bool = False, **more: Any) -> float:
        """Lay an input, call the kernel on it, and hold its result, the input and the gaps in it against what they
        should be; the relative error."""
        layout, shared = self.lay(x)
        before = shared.clone()
        self.call(layout, redzones=redzones, **more)
        error = self.judged(self.result(layout), before.float())
        if not torch.equal(shared.nan_to_num(0.5), before.nan_to_num(0.5)):
            raise self.failed({"code": "changed_input"})
        changed = self._gaps() != FILLER
        changed_outside = changed.sum().item() - self._changed_by(layout, before)
        if changed_outside > 0:
            place, owner = {"code": "between"}, {"code": "input"}
            raise self.failed({"code": "wrote_outside", "bytes": changed_outside, "place": place, "owner": owner})
        return error

    def failed(self, reason: dict) -> Failed:
        """The kernel's failure where the process now is."""
        return Failed({**reason, "at": self.process.at})

    def _gaps(self) -> torch.Tensor:
        """The bytes of the block before its results: the input, the gaps in it, a page after it."""
        assert self._block is not None
        return self._block.tensor(Layout([self._results // 4], [1], 0, "float32")).view(torch.uint8)

    def _changed_by(self, layout: Layout, x: torch.Tensor) -> int:
        """How many of those bytes differ from the filler because the input lies there."""
        return int((x.contiguous().view(torch.uint8) != FILLER).sum())
