"""Times what a stage of the pipeline computes, and what the activations take to send when nothing else happens."""

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
    """A pipeline stage that says how long it computes: its forward and backward passes lie in `busy`.

    A zero-bubble schedule takes the gradients of its weights in a pass of their own.
    """

    def __init__(self, *args, busy: Stretches, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.busy = busy

    def forward_one_chunk(self, *args, **kwargs):
        with self.busy:
            return super().forward_one_chunk(*args, **kwargs)

    def backward_one_chunk(self, *args, **kwargs):
        with self.busy:
            return super().backward_one_chunk(*args, **kwargs)

    def backward_weight_one_chunk(self, *args, **kwargs):
        with self.busy:
            return super().backward_weight_one_chunk(*args, **kwargs)


def alone_seconds(pattern: str, hidden: Tensor, microbatches: int) -> list[float]:
    """Time what a pattern sends between two matrix products, alone, with the host's part: nothing hides it there.

    Every rank calls it; only rank 0 returns samples, and only of `tp` (one all-reduce of the activations) and of `pp`
    (one micro-batch handed on, half of a there and back between ranks 0 and 1).

    Args:
        pattern: what is trained.
        hidden: the activations of the whole batch, (B, T, d).
        microbatches: m, of the pipeline.
    """
    rank, part = dist.get_rank(), hidden[: len(hidden) // microbatches]

    def there_and_back() -> None:
        for sender in (0, 1):
            if rank == sender:
                dist.send(part, 1 - rank)
            elif rank < 2:
                dist.recv(part, 1 - rank)

    exchange, crossings = {"tp": (lambda: dist.all_reduce(hidden), 1), "pp": (there_and_back, 2)}[pattern]
    taken = []
    for _ in range(WARM_UP + TRANSFERS):
        start = time.perf_counter()
        exchange()
        if hidden.is_cuda:
            torch.cuda.synchronize(hidden.device)
        taken.append((time.perf_counter() - start) / crossings)
    return taken[WARM_UP:] if rank == 0 else []
