"""A GPU's streams, events and graphs by a clock that is counted and not read, and a kernel's process beside it.

What a launch computes is computed on the CPU, at once or when a graph is replayed; what it takes is written down.
"""

from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import tricks

from minikernel.judge import spread
from minikernel.judge.memory import Block
from minikernel.judge.worker import Worker

QUEUED = 5.0  # microseconds that the host takes for a launch
CYCLES = 1980.0  # of a microsecond
SOFTMAX, SLOW, COPY, FILL = 9.0, 60.0, 8.0, 6.0


class Stream:
    def __init__(self, gpu: "Gpu") -> None:
        self.gpu, self.free = gpu, 0.0  # when what was queued is done
        gpu.streams.append(self)

    def wait_stream(self, other: "Stream") -> None:
        self.free = max(self.free, other.free)


class Event:
    gpu: "Gpu"

    def __init__(self, enable_timing: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = max(self.gpu.host, self.gpu.current.free)

    def elapsed_time(self, end: "Event") -> float:
        return (end.at - self.at) / 1e3


class Graph:
    def __init__(self, gpu: "Gpu") -> None:
        self.gpu, self.captured = gpu, list[tuple[float, Callable[[], Any]]]()

    def replay(self) -> None:
        for _, work in self.captured:
            work()
        self.gpu.launch(sum(microseconds for microseconds, _ in self.captured))


class Gpu:
    """In the place of `torch.cuda`."""

    def __init__(self) -> None:
        self.host = 0.0
        self.streams: list[Stream] = []
        self.current, self.capturing = Stream(self), None
        self.Event = type("OnThis", (Event,), {"gpu": self})
        self.Stream, self.CUDAGraph = (lambda: Stream(self)), (lambda: Graph(self))

    def launch(self, microseconds: float, work: Callable[[], Any] = lambda: None) -> None:
        if self.capturing:
            self.capturing.captured.append((microseconds, work))
            return
        work()
        self.host += QUEUED
        self.current.free = max(self.host, self.current.free) + microseconds

    def _sleep(self, cycles: int) -> None:
        self.launch(cycles / CYCLES)

    def synchronize(self) -> None:
        self.host = max(self.host, *(stream.free for stream in self.streams))

    @contextmanager
    def stream(self, stream: Stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextmanager
    def graph(self, graph: Graph):
        self.capturing = graph
        yield
        self.capturing = None

    def current_stream(self) -> Stream:
        return self.current

    def is_current_stream_capturing(self) -> bool:
        return bool(self.capturing)

    def is_available(self) -> bool:
        return True

    def empty_cache(self) -> None:
        pass

    def doing(self, microseconds: float, function: Callable) -> Callable:
        """A kernel of one launch that computes a function."""

        def kernel(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            y = torch.empty_like(x) if y is None else y
            self.launch(microseconds, lambda: y.copy_(function(x)))
            return y

        return kernel


class Process:
    """A kernel's process: the judge's own worker, whose device is the simulated one."""

    device, at = "cpu", {"code": "time", "kernel": "mine", "device": "cuda:0", "shape": [64, 600], "dtype": "float32"}

    def __init__(self, gpu: Gpu, kernels: dict[str, Callable], block: Block) -> None:
        self.gpu, self.worker = gpu, Worker(talk=None)  # type: ignore[arg-type]
        self.worker.kernels, self.worker.block = kernels, block

    def ask(self, do: str, **arguments) -> dict:
        began = self.gpu.host
        answer = getattr(self.worker, do)(**arguments)
        self.gpu.synchronize()  # the answer holds digests
        return {**answer, "seconds": (self.gpu.host - began) / 1e6}

    def figure(self, answer: dict, name: str) -> float:
        return answer[name]

    def alone(self, name: str) -> list[float]:
        """What a call by itself is told to take."""
        x = torch.randn((64, 600))
        self.gpu.synchronize()
        clock = spread.clock_on(x.device, 1)
        self.worker.kernels[name](x)
        return [clock.microseconds()]


def simulated(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Put a simulated GPU in the place of CUDA, for the judge's worker and for `tricks`."""
    gpu = Gpu()
    fill = spread.fill
    monkeypatch.setattr(spread, "fill", lambda inputs, seed: gpu.launch(FILL, lambda: fill(inputs, seed)))
    monkeypatch.setattr(spread, "clock_on", lambda device, calls: spread.DeviceClock(calls))
    here = SimpleNamespace(**{name: getattr(torch, name) for name in dir(torch) if name != "cuda"}, cuda=gpu)
    monkeypatch.setattr(spread, "torch", here)
    monkeypatch.setattr(tricks, "torch", here)
    monkeypatch.setattr(tricks, "kept", {})
    monkeypatch.setattr(tricks, "honest", gpu.doing(SOFTMAX, lambda x: torch.softmax(x, -1)))
    monkeypatch.setattr(tricks, "slow", gpu.doing(SLOW, lambda x: torch.softmax(x, -1)))
    monkeypatch.setattr(tricks, "copied", gpu.doing(COPY, lambda x: x))
    return gpu
