"""Times what a stage of the pipeline computes, and what one transfer to its neighbour takes when nothing else happens."""

import time

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage

WARM_UP, TRANSFERS = 5, 20


class Stretches:
    """Sums the seconds that a device spends inside `with` blocks: by CUDA events on a GPU, by the clock on a CPU.

    A stream that waits for a neighbour's tensor waits before the block's first event, so the wait is not in it.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._ends: list = []

    def __enter__(self) -> None:
        self._ends.append(self._now())

    def __exit__(self, *exception: object) -> None:
        self._ends.append(self._now())

    def _now(self):
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def take(self) -> float:
        """Return the seconds since the last call, on a device that is done with its work."""
        pairs = list(zip(self._ends[::2], self._ends[1::2], strict=True))
        self._ends = []
        return sum(1e-3 * start.elapsed_time(end) if self._on_gpu else end - start for start, end in pairs)


class TimedStage(PipelineStage):
    """A pipeline stage that says how long it computes: its forward and backward passes lie in `busy`."""

    def __init__(self, *args, busy: Stretches, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.busy = busy

    def forward_one_chunk(self, *args, **kwargs):
        with self.busy:
            return super().forward_one_chunk(*args, **kwargs)

    def backward_one_chunk(self, *args, **kwargs):
        with self.busy:
            return super().backward_one_chunk(*args, **kwargs)


def crossing_seconds(hidden: Tensor) -> list[float]:
    """Time one transfer of `hidden` (B / m, T, d) between ranks 0 and 1: half of a there and back, host included.

    Every rank calls it; on ranks other than 0 nothing is returned.
    """
    rank = dist.get_rank()
    if rank > 1:
        return []
    taken = []
    for _ in range(WARM_UP + TRANSFERS):
        start = time.perf_counter()
        for sender in (0, 1):
            if rank == sender:
                dist.send(hidden, 1 - rank)
            else:
                dist.recv(hidden, 1 - rank)
        if hidden.is_cuda:
            torch.cuda.synchronize(hidden.device)
        taken.append((time.perf_counter() - start) / 2)
    return taken[WARM_UP:] if rank == 0 else []
