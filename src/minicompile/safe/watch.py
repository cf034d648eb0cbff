"""Counts what the compiler does with one model, from the first compile to the last, and logs each event once.

The watch sits where a compile happens, as the backend that Dynamo calls, and never on the path of a call:
a steady-state step costs nothing. Dynamo tells it why a graph ends (a break) and which guard failed (a
recompile). That a frame has reached the cache limit, Dynamo says only in a warning, which is listened to.
"""

import logging
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import CodeType

import torch

from minicompile.safe.coverage.coverage import Coverage
from minicompile.safe.coverage.parts import Ran
from minicompile.safe.coverage.unguarded import Unguarded, read_while_tracing
from minicompile.torch_private import dynamo as dynamo_internals
from minicompile.torch_private import running

_watches: "weakref.WeakSet[Watch]" = weakref.WeakSet()


@dataclass(frozen=True)
class Found:
    """What a watch has counted."""

    graphs: int
    guards: int
    graph_breaks: list[str]
    recompiles: list[str]
    cache_limits: list[dynamo_internals.CacheLimit]
    failed_frames: list[str]
    ran: Ran
    unguarded: list[Unguarded]


class Watch:
    """A `torch.compile` backend that hands each graph to another one and keeps count.

    Attributes:
        graphs: graphs handed to the backend, forward only.
        graph_breaks, recompiles: Dynamo's reason for each, in order.
        cache_limits: the frames that Dynamo gave up on.
        backend: the other one, set when the model is compiled.
        backend_seconds: time spent in the backend; backward graphs that compile later are not in it.
        tested: what was counted in the process in which the model was tried; None where that is this process.
        coverage: which modules run compiled, and which calls go round the compiled code.
        unguarded: what the graphs depend on and no guard looks at, as it showed when they were compiled.
    """

    backend: Callable

    def __init__(self, name: str, logger: logging.Logger) -> None:
        self.logger = logger
        self.__name__ = name  # what Dynamo's messages call the backend
        self.graphs = 0
        self.backend_seconds = 0.0
        self.graph_breaks: list[str] = []
        self.recompiles: list[str] = []
        self.cache_limits: list[dynamo_internals.CacheLimit] = []
        self.failed_frames: list[str] = []
        self.coverage = Coverage(lambda sentence: self.logger.warning("torch.compile: %s", sentence))
        self.unguarded: list[Unguarded] = []
        self.tested: Found | None = None
        self._frames: dict[int, set[str]] = {}  # compile ids by frame
        self._metrics: dict[str, dynamo_internals.FrameMetrics] = {}
        self._keeps_eager_random = False
        _listen()
        _watches.add(self)

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list, **options: object) -> Callable:
        self._note_compile()
        reason = dynamo_internals.break_of_graph(graph_module)
        if reason:
            self.note_break(reason)
        for read in read_while_tracing():
            self._note_unguarded(read)
        # A graph that was checked against eager's random numbers must go on drawing them when it is recompiled.
        self._keeps_eager_random |= dynamo_internals.draws_as_eager()
        in_the_caches = self.tested is not None and self.graphs < self.tested.graphs  # as they were tested
        started = time.perf_counter()
        try:
            with dynamo_internals.fallback_random(self._keeps_eager_random or in_the_caches):
                compiled = self.backend(graph_module, example_inputs, **options)
        finally:
            self.backend_seconds += time.perf_counter() - started
        self.graphs += 1
        self.coverage.graphs += 1
        return compiled

    def _note_unguarded(self, read: Unguarded) -> None:
        if read not in self.unguarded:
            self.unguarded.append(read)
            self.logger.warning("torch.compile: %s", read)

    def note_break(self, reason: str) -> None:
        """Record a graph break, unless the same one has been seen."""
        if reason not in self.graph_breaks:
            self.graph_breaks.append(reason)
            self.logger.warning("torch.compile: graph break: %s", reason)

    @contextmanager
    def start_up(self) -> Iterator[None]:
        """While only this model compiles: breaks before a frame's first operation, and frames that cannot be
        compiled at all, never reach a backend and are taken from the process's own record instead."""
        breaks = dynamo_internals.breaks_so_far()
        known = {(metrics.compile_id, metrics.began) for metrics in dynamo_internals.frame_metrics()}
        try:
            yield
        finally:
            for reason in dynamo_internals.breaks_since(breaks):
                self.note_break(reason)
            for metrics in dynamo_internals.frame_metrics():
                if metrics.failure and (metrics.compile_id, metrics.began) not in known:
                    self.failed_frames.append(f"{metrics.function}: {metrics.failure}")
                    self.coverage.gave_up.setdefault(metrics.function, "not_compiled")

    def guards(self) -> int:
        """Count the guards that the frames compiled so far check, over all their graphs."""
        self._read_metrics()
        return sum(metrics.guards for metrics in self._metrics.values())

    def found(self) -> Found:
        """Return what has been counted, as plain data for another process."""
        counted = (self.graphs, self.guards(), self.graph_breaks, self.recompiles, self.cache_limits)
        return Found(*counted, self.failed_frames, self.coverage.found(), self.unguarded)

    def hear(self, found: Found, random: bool) -> None:
        """Take over, and log, what a watch of the same model counted in another process.

        Args:
            random: whether what was compiled there draws random numbers, which were eager's.

        Its graphs stay there: `graphs` goes on counting those of this process, and `tested` keeps the other's.
        """
        self.tested = found
        for reason in found.graph_breaks:
            self.note_break(reason)
        for limit in found.cache_limits:
            self._note_cache_limit(limit)
        self.failed_frames += found.failed_frames
        self.coverage.hear(found.ran)
        for read in found.unguarded:
            self._note_unguarded(read)
        self._keeps_eager_random |= random

    def _note_compile(self) -> None:
        self._read_metrics()
        current = dynamo_internals.current_compile()
        if current is None:
            return
        frame, compile_id = current
        seen = self._frames.setdefault(frame, set())
        reason = dynamo_internals.current_recompile_reason()
        if seen and compile_id not in seen and reason is not None:  # None: the last compile failed, this is another try
            self.recompiles.append(reason)
            self.logger.warning("torch.compile: recompile %d: %s", len(self.recompiles), reason)
        seen.add(compile_id)

    def _read_metrics(self) -> None:
        ids = set().union(*self._frames.values()) if self._frames else set()
        for metrics in dynamo_internals.frame_metrics():
            if metrics.compile_id in ids:
                self._metrics[metrics.compile_id] = metrics

    def hear_cache_limit(self, compile_id: str, limit: dynamo_internals.CacheLimit) -> None:
        """Record that Dynamo gave up on a frame, if its graph `compile_id` is one of this model's."""
        ours = any(compile_id in ids for ids in self._frames.values())
        if ours:
            self._note_cache_limit(limit)

    def _note_cache_limit(self, limit: dynamo_internals.CacheLimit) -> None:
        if limit not in self.cache_limits:
            self.cache_limits.append(limit)
            self.coverage.hear_limit(limit.function, limit.limit)
            self.logger.warning("torch.compile: %s", limit)


@cache
def _listen() -> None:
    """Have every watch hear of cache limits and of skipped frames, from the first watch on."""

    def tell_all(compile_id: str, limit: dynamo_internals.CacheLimit) -> None:
        for watch in list(_watches):
            watch.hear_cache_limit(compile_id, limit)

    def tell_of_skip(code: CodeType, reason: str) -> None:
        for watch in list(_watches):
            watch.coverage.hear_skip(code, reason)

    dynamo_internals.listen_for_cache_limit(tell_all)
    running.listen_for_skips(tell_of_skip)
