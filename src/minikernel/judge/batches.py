"""Many calls at once, by the judge's own clock: what one call's share is too short for it to see, it sees of twenty.

A batch is a call on each of `count` inputs, as calls or as one CUDA graph of them. The judge's clock runs from the seed
that the inputs are made of to the answer that holds a digest of every row of every result. What lies between besides
the calls is the same for F.softmax and the copy, whose times are believed, and is taken off. Then rows that the judge
picks at random are held against the softmax of the inputs, which it makes again out of the seed, and against the
digests.
"""

import os
import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import torch

from minikernel.judge.client import Failed, KernelProcess
from minikernel.judge.kinds import wrong_form
from minikernel.judge.memory import Block, aligned, contiguous
from minikernel.judge.spread import digest, weights_of
from minikernel.measure.timing import turns

COUNT = 20  # inputs of a batch, where so many fit
LEAST = 2
BATCH_BYTES = 1 << 30  # that the inputs of a batch may take up; three times as much on the device with the results
LOOKED_AT = 16  # rows of each result
SLACK_US, SLACK = 200, 0.1  # by which the clocks may differ over a batch: so much, or such a share of it
TRIES = 6  # a busy machine may part the two clocks of an honest kernel, but not for long


class Provider(NamedTuple):
    """Who is called: a process, its name there, and the configuration where it is tuned."""

    process: KernelProcess
    name: str
    config: dict | None = None


def count_of(shape: list[int], dtype: str) -> int:
    """How many inputs a batch has."""
    return min(COUNT, max(LEAST, BATCH_BYTES // (shape[0] * shape[1] * getattr(torch, dtype).itemsize)))


def space(shape: list[int], dtype: str) -> int:
    """Bytes of a block that a batch needs: a digest of each row, and the rows that are looked at."""
    count = count_of(shape, dtype)
    shown = min(LOOKED_AT, shape[0]) * shape[1] * getattr(torch, dtype).itemsize
    return aligned(count * shape[0] * 8) + count * shown


class Batches:
    """The batches of one shape.

    Args:
        providers: by name.
        trusted: names of those whose own clock is believed.
        shape, dtype: of each input.
        where: a block that the processes have mapped, and where in it `space` bytes are free.
        judge: (rows of results, rows of inputs, their numbers) -> nothing, or the kernel's failure raised.
    """

    def __init__(
        self,
        providers: dict[str, Provider],
        trusted: Sequence[str],
        shape: list[int],
        dtype: str,
        where: tuple[Block, int],
        judge: Callable[[torch.Tensor, torch.Tensor, list[int]], None],
    ) -> None:
        self.providers, self.trusted, self.shape, self.dtype, self.judge = providers, trusted, shape, dtype, judge
        self.count, self.looked_at, block, start = count_of(shape, dtype), min(LOOKED_AT, shape[0]), *where
        self.processes = {id(one.process): one.process for one in providers.values()}.values()
        # digests first, then the rows that are asked for
        size = aligned(self.count * shape[0] * 8)
        self.layouts = [
            contiguous([self.count, shape[0]], start, "int64"),
            contiguous([self.count, self.looked_at, shape[1]], start + size, dtype),
        ]
        self.digests, self.shown = (block.tensor(layout) for layout in self.layouts)
        for process in self.processes:
            process.ask("spread", count=self.count, shape=shape, dtype=dtype)
        self.random = random.Random(os.urandom(16))
        self.scratch = torch.empty(shape, dtype=getattr(torch, dtype), device=next(iter(self.processes)).device)

    def capture(self) -> None:
        """Capture each provider's graph; those of one kernel share it."""
        for one in {(id(one.process), one.name): one for one in self.providers.values()}.values():
            one.process.ask("capture", name=one.name, config=one.config)

    def seen(self, told: dict[str, list[float]], rounds: int, graph: bool) -> dict[str, float]:
        """Run batches of each provider in turn; microseconds of a call by the judge's clock, of those not trusted.

        Args:
            told: what each provider's process told of a call; of graphs, what it tells now is added.
            rounds: batches of each.
            graph: replay graphs rather than call.

        Raises:
            Failed: a result is wrong, or is not the one that the digest was of, or the clocks part to the end.
        """
        windows: dict[str, list[float]] = {name: [] for name in self.providers}
        for name in self.providers:  # the first makes memory ready
            self._batch(name, graph)
        for _ in range(TRIES):
            for order in turns(self.providers, rounds):
                for name in order:
                    window, by_itself = self._batch(name, graph)
                    windows[name].append(window)
                    if graph:
                        told[name].append(by_itself)
            beside = max(median(windows[name]) - self.count * median(told[name]) for name in self.trusted)
            seen = {
                name: (median(taken) - beside) / self.count
                for name, taken in windows.items()
                if name not in self.trusted
            }
            parted = [name for name in seen if self._parts(median(told[name]), seen[name])]
            if not parted:
                return seen
        self._clock_parts(parted[0], told, seen)
        return seen

    def graphs(self, alone: dict[str, list[float]], rounds: int) -> dict[str, list[float]]:
        """Replay each provider's graph; what it tells of a call, held against what was told of calls by themselves.

        No call is slower in a graph. By itself each has its spin, in which a kernel can have its work done on a second
        stream that waits for nothing; a graph of twenty has one, and while it is replayed no code of the kernel's runs
        on the host.

        Raises:
            Failed: as `seen`, or a call by itself is told as faster than it was seen to be in a graph.
        """
        told: dict[str, list[float]] = {name: [] for name in self.providers}
        for _ in range(TRIES):
            seen = self.seen(told, rounds, graph=True)
            parted = [name for name in seen if self._parts(median(alone[name]), seen[name])]
            if not parted:
                return told
        self._clock_parts(parted[0], alone, seen)
        return told

    def _clock_parts(self, name: str, told: dict[str, list[float]], seen: dict[str, float]) -> None:
        self._failed(name, {"code": "clock", "microseconds": median(told[name]), "seen": seen[name]})

    def _parts(self, told: float, seen: float) -> bool:
        return self.count * (seen - told) > max(SLACK_US, SLACK * self.count * told)

    def _batch(self, name: str, graph: bool) -> tuple[float, float]:
        """One batch, judged where its kernel is not trusted: the judge's microseconds, and its own of one call."""
        process, kernel, config = self.providers[name]
        seed = self.random.getrandbits(62)
        answer = process.ask("batch", name=kernel, config=config, seed=seed, start=self.layouts[0].start, graph=graph)
        bound = self.digests.clone()  # at once: what is written there later is too late
        window, own = answer["seconds"] * 1e6, process.figure(answer, "microseconds")
        rows = [self.random.sample(range(self.shape[0]), self.looked_at) for _ in range(self.count)]
        if name not in self.trusted:
            if reason := wrong_form(answer, self.shape, self.dtype):
                self._failed(name, reason)
            self.shown.fill_(torch.nan)
        process.ask("reveal", rows=rows, start=self.layouts[1].start)
        if name not in self.trusted:
            results, numbers = self.shown.clone().view(-1, self.shape[1]), [row for at in rows for row in at]
            self.judge(results, self._inputs(seed, rows), numbers)
            promised = torch.cat([of_one[at] for of_one, at in zip(bound, rows, strict=True)])
            if not torch.equal(digest(results, weights_of(seed, self.shape[1])), promised):
                self._failed(name, {"code": "another"})
        return window, own

    def _inputs(self, seed: int, rows: list[list[int]]) -> torch.Tensor:
        """Those rows of the inputs, made again one input at a time."""
        generator = torch.Generator(self.scratch.device).manual_seed(seed)
        return torch.cat([self.scratch.normal_(generator=generator)[at].cpu() for at in rows])

    def _failed(self, name: str, reason: dict) -> None:
        raise Failed({**reason, "at": self.providers[name].process.at})
