"""The process in which a user's kernel runs: it does what the judge asks, one request a line, and decides nothing.

`python -m minikernel.judge.worker SOCKET DEADLINE`. A request is a line of JSON, {"number", "do", ...}; the answer is
one too, with the same number, and {"reason": ...} where the kernel failed. Whatever stands in an answer may be the
kernel's own invention, since both live in one process: the judge believes nothing of it but bytes of results, which it
compares itself.

Requests: `map` (a block of shared memory, its descriptor beside the line), `load`, `call` (keep a result under a key),
`show` (copy a kept result, or rows of it, into the block), `forget`, `tune`, `traffic`; and for many calls at once
`spread`, `capture`, `batch` and `reveal` (`minikernel.judge.spread`).
"""

import faulthandler
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch

from minikernel.judge.memory import ALIGNED, Block, Layout, contiguous
from minikernel.judge.spread import Spread, clock_on
from minikernel.ops.registry import any_spec
from minikernel.proof.proof import poisoned_memory
from minikernel.proof.redzones import Redzones
from minikernel.reasons import of_exception
from minilab import LabError

Answer = dict[str, Any]
COPY = "copy"  # a provider that copies, for the roof
SOON = 1e-3  # seconds; the least that a timer takes


class Failure(Exception):
    """A kernel that failed, by its reason."""

    def __init__(self, reason: dict) -> None:
        self.reason = reason
        super().__init__(reason["code"])


class Worker:
    """What the kernel's process holds between two requests."""

    def __init__(self, talk: socket.socket) -> None:
        self.talk = talk
        self.block: Block | None = None
        self.device = torch.device("cpu")
        self.kernels: dict[str, Callable] = {}
        self.results: dict[int, torch.Tensor] = {}
        self.on_device: dict[int, torch.Tensor] = {}  # inputs by where they start in the block
        self.target: torch.Tensor | None = None
        self.inputs: Spread | None = None  # of many calls at once

    def map(self, n_bytes: int, descriptor: int) -> Answer:
        """Use another block of shared memory; what was kept of the one before is dropped."""
        self.forget()
        self.on_device.clear()
        self.target = self.inputs = None
        self.block = Block(n_bytes, descriptor)
        self.block.close()
        return {}

    def load(self, name: str, entry: dict | None, device: str) -> Answer:
        """Load a kernel; `copy` is one too. One that is tuned takes its default configuration where none is given."""
        self.device = torch.device(device)
        if name == COPY:
            self.kernels[name] = self._copied
            return {"tuned": False}
        spec = any_spec(name, entry)
        function = spec.load()
        self.kernels[name] = function
        # a tuned kernel without a configuration would tune itself at the first call of each width
        if spec.tuned:
            default_config = sys.modules[spec.module].default_config
            self.kernels[name] = lambda x, config=None: function(x, config=config or default_config(x.shape[-1]))
        return {"tuned": spec.tuned}

    def call(
        self,
        name: str,
        x: list,
        key: int,
        redzones: bool = False,
        config: dict | None = None,
        fresh: list | None = None,
        more: list[list] | None = None,
        again: bool = False,
    ) -> Answer:
        """Call a kernel on an input of the block and keep its result.

        Args:
            name: the kernel's.
            x: the input's `Layout`.
            key: what the result is kept under.
            more: the `Layout` of each operand that the kernel takes after it.
            again: give it memory for its result, the same at every call; it takes that as its last argument.
            redzones: between redzones, in a place of its own; otherwise where it lies, on a GPU in a copy that stays.
            config: of a tuned kernel.
            fresh: on a GPU, rows of the input that the judge has rewritten since.

        Returns:
            `microseconds` by this process's own clock, the result's `shape` and `dtype`.
        """
        zones = Redzones()
        given = [self._placed(Layout(*one), zones if redzones else None, fresh) for one in [x, *(more or [])]]
        # On a CPU outside of redzones the judge itself compares what it laid; on a GPU only this process has the copy.
        before = [one.clone() if redzones or (one.is_cuda and fresh is None) else None for one in given]
        function = self._configured(name, config)
        memory = [self._result_memory(given[0])] if again else []
        with poisoned_memory() if redzones else nullcontext(), zones if redzones else nullcontext():
            result, took = self._timed(function, *given, *memory)
        # a subclass may compute when it is looked at
        if type(result) is not torch.Tensor:
            raise Failure({"code": "no_tensor", "type": type(result).__name__})
        for was, now in zip(before, given, strict=True):
            if was is not None and not torch.equal(now.nan_to_num(0.5), was.nan_to_num(0.5)):
                raise Failure({"code": "changed_input"})
        if redzones and (damage := zones.damage()):
            raise Failure(damage)
        # kept and not copied: a kernel that overwrites it in a later call is found out by that
        self.results[key] = result.detach()
        return {"microseconds": took, **_form(result)}

    def show(self, key: int, start: int, x: list | None = None, rows: list | None = None) -> Answer:
        """Copy a kept result into the block, at `start`, and forget it.

        Args:
            x: the `Layout` of the input whose `rows` the judge has put back, on a GPU.
            rows: only these rows of it are shown.
        """
        result = self.results.pop(key)
        if rows is not None:
            if x is not None:
                self._placed(Layout(*x), None, rows)
            result = result.reshape(-1, result.shape[-1])[rows]
        assert self.block is not None
        there = contiguous(result.shape, start, str(result.dtype).removeprefix("torch."))
        self.block.tensor(there).copy_(result)
        return {}

    def forget(self) -> Answer:
        """Drop all results."""
        self.results.clear()
        return {}

    def tune(self, name: str, entry: dict, shapes: list, dtype: str, seconds: float) -> Answer:
        """Search a tuned kernel's configurations on the GPU."""
        from minikernel.measure.autotune import autotune
        from minikernel.ops.registry import SPECS

        SPECS[name] = any_spec(name, entry)  # autotune goes by name
        return {"choices": autotune(name, shapes, [dtype], str(self.device), seconds, print)}

    def spread(self, count: int, shape: list[int], dtype: str) -> Answer:
        """Make memory for as many inputs; that of single calls is given back."""
        self.on_device.clear()
        self.inputs = Spread(count, shape, dtype, self.device)
        return {}

    def capture(self, name: str, config: dict | None = None) -> Answer:
        """Capture a graph of a kernel's calls on all of them."""
        self._spread().capture(name, self._configured(name, config))
        return {}

    def batch(self, name: str, seed: int, start: int, graph: bool, config: dict | None = None) -> Answer:
        """Call a kernel on inputs made of a seed, or replay its graph; a digest of each row is put into the block."""
        spread = self._spread()
        took = spread.run(seed, None if graph else self._configured(name, config), name)
        x = spread.inputs[0]
        for result in spread.results:
            if type(result) is not torch.Tensor:
                raise Failure({"code": "no_tensor", "type": type(result).__name__})
            if result.shape != x.shape or result.dtype != x.dtype:
                return {"microseconds": took, **_form(result)}
        assert self.block is not None
        digests = spread.digests(seed)
        self.block.tensor(contiguous(digests.shape, start, "int64")).copy_(digests)
        return {"microseconds": took, **_form(x)}

    def reveal(self, rows: list[list[int]], start: int) -> Answer:
        """Put rows of each result into the block, and NaN into all that was computed and what of."""
        shown = self._spread().shown(rows)
        assert self.block is not None
        self.block.tensor(contiguous(shown.shape, start, str(shown.dtype).removeprefix("torch."))).copy_(shown)
        return {}

    def _spread(self) -> Spread:
        assert self.inputs is not None
        return self.inputs

    def _configured(self, name: str, config: dict | None) -> Callable:
        return self.kernels[name] if config is None else partial(self.kernels[name], config=config)

    def traffic(self, name: str, x: list, more: list[list] | None = None, cache_bytes: int = 0) -> Answer:
        """Count what a kernel moves, on a CPU: the fields of `minikernel.exercise.traffic.Traffic`."""
        from minikernel.exercise.traffic import count_traffic

        given = [self._placed(Layout(*one), None, None) for one in [x, *(more or [])]]
        return count_traffic(self.kernels[name], *given, cache_bytes=cache_bytes)._asdict()

    def _placed(self, layout: Layout, zones: Redzones | None, fresh: list | None) -> torch.Tensor:
        """An input where the kernel shall find it: between redzones, in shared memory itself, or on the GPU."""
        assert self.block is not None
        shared = self.block.tensor(layout)
        if zones is None and self.device.type == "cpu":
            return shared
        if zones is not None or not shared.is_contiguous() or layout.start % ALIGNED:
            return (zones or Redzones()).input(_own_storage(shared), shared.dtype, self.device)
        here = self.on_device.get(layout.start)
        if here is None or here.shape != shared.shape or fresh is None:
            here = self.on_device[layout.start] = _own_storage(shared).to(self.device)
        else:
            here.view(-1, here.shape[-1])[fresh] = shared.reshape(-1, shared.shape[-1])[fresh].to(self.device)
        return here

    def _timed(self, function: Callable, *given: torch.Tensor) -> tuple[Any, float]:
        """A call's result, and the microseconds that it took: on a GPU between two events behind a short spin."""
        if given[0].is_cuda:
            torch.cuda.synchronize()
        clock = clock_on(given[0].device, 1)
        result = function(*given)
        return result, clock.microseconds()

    def _copied(self, x: torch.Tensor) -> torch.Tensor:
        return self._result_memory(x).copy_(x)

    def _result_memory(self, x: torch.Tensor) -> torch.Tensor:
        """Memory for a result as large as `x`, the same at every call."""
        if self.target is None or self.target.shape != x.shape:
            self.target = torch.empty_like(x)
        return self.target

    def answer(self, request: dict, descriptors: list[int]) -> Answer:
        """Do what is asked; what the kernel raised is a reason."""
        do, arguments = request.pop("do"), request
        if do == "map":
            arguments["descriptor"] = descriptors[0]
        try:
            return getattr(self, do)(**arguments)
        except Failure as failure:
            return {"reason": failure.reason}
        except LabError as refusal:
            if refusal.__cause__:  # what the kernel itself raised, with the place in its file
                traceback.print_exception(refusal.__cause__)
            return {"reason": of_exception(refusal)}
        except BaseException as failure:
            traceback.print_exc()
            return {"reason": of_exception(failure)}

    def serve(self) -> None:
        """Answer until nobody asks any more."""
        waiting = b""
        while True:
            piece, descriptors, *_ = socket.recv_fds(self.talk, 1 << 16, 1)
            # the judge has closed its end: there is nobody left to answer
            if not piece:
                return
            waiting += piece
            # JSON has no line's end within it: a whole request is there
            if waiting.endswith(b"\n"):
                request = json.loads(waiting)
                number = request.pop("number")
                answer = json.dumps({**self.answer(request, list(descriptors)), "number": number})
                self.talk.sendall(answer.encode() + b"\n")
                waiting = b""


def _form(result: torch.Tensor) -> Answer:
    return {"shape": list(result.shape), "dtype": str(result.dtype).removeprefix("torch.")}


def _own_storage(shared: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides and offset from an aligned address, whose storage holds nothing else."""
    span = 1 + sum((length - 1) * step for length, step in zip(shared.shape, shared.stride(), strict=True))
    # how far the judge put the first element past an aligned address: the kernel is to see the same
    offset = (shared.data_ptr() % 64) // shared.element_size()
    memory = torch.zeros(offset + (span if shared.numel() else 0), dtype=shared.dtype)
    return memory.as_strided(shared.shape, shared.stride(), offset).copy_(shared)


def main(descriptor: int, deadline: float) -> None:
    """Serve the judge at the other end of a socket, until `time.monotonic()`, which all processes share, is there."""
    # what the kernel starts must not be able to answer in its place
    os.set_inheritable(descriptor, False)
    # a crash in native code then says in the log which line of Python called it
    faulthandler.enable()
    # A thread of C runs this, so that code that holds the GIL cannot stop it.
    faulthandler.dump_traceback_later(max(deadline - time.monotonic(), SOON), exit=True)
    Worker(socket.socket(fileno=descriptor)).serve()
    os._exit(0)  # what the kernel left to be done at exit is its own affair


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
