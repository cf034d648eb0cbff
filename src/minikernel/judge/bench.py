"""Time a user's kernel from outside: every timed call is judged too, and its clock is held against the judge's.

The user's kernel and what it is compared with, F.softmax and a copy, run in two processes of one program, in turn, on
the same inputs in shared memory. Before each call the judge writes new values into some rows that it picks at random;
after the call it puts the old ones back, and only then looks at those rows of the result and at others. So a call
cannot be answered from memory of an earlier one, put off, or left out, without being seen. Before and after the timing
a whole result is looked at.

What a call took is told by its own process, because a request and its answer cost more than a small call. The judge
believes it only where its own clock around request and answer agrees, but for what the same way costs the other
process, and where it is not faster than a copy can be on this machine, which makes the kernel wrong, not fast. On a GPU
that clock also runs around many calls at once, and around CUDA graphs of them (`minikernel.judge.batches`).

What remains: on a CPU the part of a call that is shorter than `CLOCK_SLACK_US` rests on the kernel's own process; on a
GPU a twentieth of that, where twenty inputs have room.
"""

import math
import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from hashlib import blake2b
from statistics import median
from typing import Any, NamedTuple

import torch

from minikernel.judge.batches import Batches, Provider, space
from minikernel.judge.client import Failed, Gone, KernelProcess, Workshop
from minikernel.judge.kinds import wrong_form
from minikernel.judge.memory import Block, aligned, contiguous
from minikernel.judge.operation import SOFTMAX
from minikernel.judge.starting import WAITING
from minikernel.measure.bench import ABOVE_ROOF, REFERENCE, TOLERANCE, row_of
from minikernel.measure.ceilings import Rate, large_copy
from minikernel.measure.choice import choose
from minikernel.measure.noise import DUPLICATE, floors
from minikernel.measure.rows import BenchRow
from minikernel.measure.timing import CACHE_MULTIPLE, DIGITS, Timing, last_level_cache_bytes, raw, turns
from minikernel.proof.accuracy import softmax_error
from minikernel.reasons import Reason, wrong

COPY = "copy"
REWRITTEN, LOOKED_AT = 16, 16  # rows of each call: rewritten before it, and others that are looked at besides
SHARE_REWRITTEN = 32  # at most every so many-th row is rewritten: the others are cold
CLOCK_SLACK_US, CLOCK_SLACK = 200, 0.25  # by which the two clocks may differ: so much, or such a share of a call
CLOCK_TRIES = 8  # a busy machine may part the two clocks of an honest kernel, but not for long
PAUSE_SECONDS = 0.25  # after the first try, and so much more after each other
BATCHES, GRAPHS = 10, 25  # batches of calls, and of replays, of each provider
KNOB = "bench.time_limit_seconds"


class Compared(NamedTuple):
    """What a kernel is timed beside, and how.

    Attributes:
        reference: entry of the function that takes F.softmax's place.
        alone: whether a copy at the same shape is the ceiling, rather than the bandwidth of a large one.
        again: whether the kernel is given memory for its result, the same at every call, as the copy is.
        workshop: what the processes may touch, and on a CPU where they are forked.
    """

    reference: dict | None = None
    alone: bool = False
    again: bool = False
    workshop: Workshop | None = None


def bench_users_kernel(
    name: str,
    entry: dict,
    params: dict,
    torch_device: str,
    seconds: float,
    log: Callable[[str], None],
    compared: Compared = Compared(),  # noqa: B008  # which nobody can change
) -> tuple[dict, Reason | None]:
    """Tune a user's kernel where it can be and is on a GPU, and time it at every shape.

    Args:
        name, entry: the kernel's, from the configuration.
        params: shapes ([rows, cols] each), dtype, launches, warmup, seed.
        torch_device: `cpu` or `cuda:N`.
        seconds: its process is ended there; half of them are for tuning.
        log: called with one line a shape.
        compared: what it is timed beside; F.softmax, unless told.

    Returns:
        {"rows": as `bench.json` has them, "autotune": what `minikernel.measure.autotune.autotune` gives, or None}, and
        None; or no row, and the reason why it is left out.
    """
    timed: dict[str, Any] = {"rows": [], "autotune": None}
    # measured here, in the judge's process, which runs nobody's code
    ceiling = None if compared.alone else large_copy(torch.device(torch_device))
    if ceiling:
        log(f"{name}: copy ceiling {ceiling.giga_per_s:,.0f} GB/s")
    where = (torch_device, seconds, KNOB, WAITING, compared.workshop)
    # Two processes of one program: whatever the way to a kernel costs, it costs both.
    with ExitStack() as open_processes:
        others = open_processes.enter_context(KernelProcess(REFERENCE, *where))
        own = open_processes.enter_context(KernelProcess(name, *where))
        others.load(REFERENCE, compared.reference)
        others.load(COPY, None)
        try:
            if own.load(name, entry)["tuned"] is True and torch_device != "cpu":
                # half of the time, so that timing has the other half
                own.place("tune")
                search = {"shapes": params["shapes"], "dtype": params["dtype"], "seconds": seconds / 2}
                timed["autotune"] = own.ask("tune", name=name, entry=entry, **search).get("choices")
            for shape in params["shapes"]:
                own.place("time", shape=list(shape), dtype=params["dtype"])
                config = _chosen(timed["autotune"], shape, params["dtype"], own)
                row = _Bench(name, own, others, shape, params, config, compared.again).row(ceiling)
                timed["rows"].append(row)
                log(
                    f"{name} {shape[0]}x{shape[1]} {params['dtype']}: {row['median_us']:,.1f} us, "
                    f"{row['fraction_of_copy']:.1%} of copy, {row['ratio_to_reference']:.3f} of {REFERENCE}'s time"
                )
        except (Failed, Gone) as failure:
            return {"rows": [], "autotune": None}, failure.reason
    return timed, None


def _chosen(choices: Any, shape: list[int], dtype: str, own: KernelProcess) -> dict | None:
    """The configuration for a shape, out of what the kernel's process says that it found."""
    try:
        return choose(choices, shape[0], shape[1], dtype) if choices else None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise Failed({"code": "meddled", "at": own.at}) from None


class _Bench:
    """One shape: its inputs in shared memory, and what each provider took by either clock."""

    def __init__(
        self,
        name: str,
        own: KernelProcess,
        others: KernelProcess,
        shape: list[int],
        params: dict,
        config: dict | None,
        again: bool,
    ) -> None:
        self.name, self.own, self.others, self.config, self.params = name, own, others, config, params
        self.again = again
        self.rows, self.cols = shape
        self.dtype = getattr(torch, params["dtype"])
        n_bytes = self.rows * self.cols * self.dtype.itemsize
        cache = last_level_cache_bytes(torch.device(own.device))
        # Inputs first, more than three caches' worth of them, then one place for whatever is shown of results.
        copies = -(-CACHE_MULTIPLE * cache // n_bytes) + 1
        self.layouts = [contiguous(shape, i * aligned(n_bytes), params["dtype"]) for i in range(copies)]
        self.results = copies * aligned(n_bytes)
        self.block = Block(self.results + max(n_bytes, space(shape, params["dtype"])))
        self.inputs = [self.block.tensor(layout) for layout in self.layouts]
        # what every input must be again at the end
        self.digests = [_digest(x.copy_(self._content(i))) for i, x in enumerate(self.inputs)]
        # one block for both, so that all providers read the same inputs
        for process in (own, others):
            process.use(self.block)
        self.block.close()
        self.providers = {
            name: (own, name),
            DUPLICATE: (own, name),
            COPY: (others, COPY),
            REFERENCE: (others, REFERENCE),
        }
        # From the operating system and not from a seed: a kernel
        # that knew which rows are looked at would compute those.
        self.random = random.Random(os.urandom(16))
        self.generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7)))
        self.error = 0.0

    def row(self, ceiling: Rate | None) -> BenchRow:
        """Time the shape; its row. Where there is no other ceiling it is the copy at this shape.

        Raises:
            Failed: the kernel is wrong, or faster than it can be.
        """
        params, on_cuda = self.params, self.own.device != "cpu"
        # A whole result before and after: in between only rows are looked at.
        self._look_at_all(0)
        for provider in self.providers:
            # Warm-up calls are judged as the others are; only their times do not count.
            for i in range(params["warmup"]):
                self._call(provider, i % len(self.inputs), timed=False)
        self._time_calls()
        if on_cuda:
            self._time_batches()
        self._look_at_all(len(self.inputs) - 1)
        if [_digest(x) for x in self.inputs] != self.digests:
            raise self._failed({"code": "changed_input"})
        n_bytes = 2 * self.rows * self.cols * self.dtype.itemsize
        ceiling = ceiling or Rate(n_bytes, self.timings[COPY].samples_us)
        row = row_of(self.name, "forward", [self.rows, self.cols], self.dtype, self.timings, ceiling.giga_per_s)
        # Faster than any copy of the same bytes: the bytes were not moved, so that it is wrong, however right it looks.
        roof = max(ceiling.giga_per_s, n_bytes / row["copy_us"] / 1e3)
        if row["above_roof"]:
            raise self._failed({"code": "above_roof", "gb_per_s": row["gb_per_s"], "roof": roof})
        # in graphs as well, where a copy lacks what lies between two launches
        if row["graph_us"]:
            in_graph, roof = (n_bytes / one / 1e3 for one in (row["graph_us"], self.timings[COPY].graph_us))
            roof = max(ceiling.giga_per_s, roof)
            if in_graph > ABOVE_ROOF * roof:
                raise self._failed({"code": "graph_above_roof", "gb_per_s": in_graph, "roof": roof})
        return {
            **row,
            "max_rel_err": self.error,
            "config": self.config,
            "launches": params["launches"],
            "noise_floor": floors(self.timings, self.name)["noise_floor"],
            **raw(self.timings),
            "ceiling": asdict(ceiling),
        }

    def _time_calls(self) -> None:
        """Time calls of each provider, in turn; anew where the two clocks part, and a little later.

        What the judge saw of earlier tries goes on to count, so that a kernel that is found out is not tried until
        chance is with it.

        Raises:
            Failed: they part to the end.
        """
        # what the judge's clock saw of a call beyond what the process told of it
        self.unseen: dict[str, list[float]] = {provider: [] for provider in self.providers}
        for tries in range(1, CLOCK_TRIES + 1):
            self.timings = {provider: Timing() for provider in self.providers}
            turn = 0
            for order in turns(self.providers, self.params["launches"]):
                for provider in order:
                    self._call(provider, turn % len(self.inputs))
                    turn += 1
            parted = self._clocks_part()
            if not parted:
                break
            if tries == CLOCK_TRIES:
                raise self._failed(parted)
            time.sleep(PAUSE_SECONDS * tries)

    def _content(self, i: int) -> torch.Tensor:
        """What an input holds."""
        # From a seed: what an input held can be made again, when a whole result is judged at the end.
        generator = torch.Generator().manual_seed(self.params["seed"] + i)
        return torch.randn((self.rows, self.cols), generator=generator).to(self.dtype)

    def _call(self, provider: str, i: int, timed: bool = True) -> None:
        """One call on an input with some rows rewritten; the kernel's are judged."""
        process, name = self.providers[provider]
        # At most one row in 32 is new: the rest of the input is as cold as it would be without the judge.
        fresh = self.random.sample(range(self.rows), min(REWRITTEN, -(-self.rows // SHARE_REWRITTEN)))
        x, before = self.inputs[i], self.inputs[i][fresh]
        x[fresh] = rewritten = torch.randn((len(fresh), self.cols), generator=self.generator).to(self.dtype)
        config, again = (self.config, self.again) if process is self.own else (None, False)
        answer = process.ask("call", name=name, x=self.layouts[i], key=0, config=config, fresh=fresh, again=again)
        # Put back at once, before the result is looked at: whoever
        # computes it only then reads the old values, and is wrong.
        x[fresh] = before
        took = process.figure(answer, "microseconds")
        if timed:
            self.timings[provider].samples_us.append(max(round(took, DIGITS), 10**-DIGITS))
            self.unseen[provider].append(answer["seconds"] * 1e6 - took)
        if process is not self.own:
            # F.softmax and the copy are not judged: nobody is suspected of having forged them.
            process.ask("forget")
            return
        others = self.random.sample(range(self.rows), min(LOOKED_AT, self.rows))
        others = [row for row in others if row not in fresh]
        expected = torch.cat([rewritten, x[others]])
        self._judge(self._shown(answer, i, fresh + others), expected, fresh + others)

    def _look_at_all(self, i: int) -> None:
        """Judge a whole result."""
        x, own = self.layouts[i], self.own
        answer = own.ask("call", name=self.name, x=x, key=0, config=self.config, again=self.again)
        self._judge(self._shown(answer, i, None), self._content(i))

    def _shown(self, answer: dict, i: int, rows: list[int] | None) -> torch.Tensor:
        """Rows of the result that is kept, or all of it."""
        if reason := wrong_form(answer, [self.rows, self.cols], self.params["dtype"]):
            raise self._failed(reason)
        count = self.rows if rows is None else len(rows)
        result = self.block.tensor(contiguous([count, self.cols], self.results, self.params["dtype"]))
        result.fill_(torch.nan)
        self.own.ask("show", key=0, start=self.results, x=self.layouts[i], rows=rows)
        return result

    def _judge(self, result: torch.Tensor, x: torch.Tensor, rows: list[int] | None = None) -> None:
        """Hold a result, or those rows of it, against the softmax of `x`."""
        at, tolerance = torch.device(self.own.device), TOLERANCE[self.params["dtype"]]
        large = x.numel() > 1 << 20
        error = softmax_error(result.to(at), x.to(at)) if large else softmax_error(result, x)
        if not error <= tolerance:
            reason = wrong(error, tolerance) if math.isfinite(error) else SOFTMAX.in_kind(result, x)
            if rows and "where" in reason:
                reason["where"]["row"] = rows[reason["where"]["row"]]
            raise self._failed(reason)
        self.error = max(self.error, error)

    def _time_batches(self) -> None:
        """Hold what was told of single calls against batches by the judge's clock, and time CUDA graphs that way.

        Raises:
            Failed: a result of theirs is wrong, the clocks part, or a graph is faster than it can be.
        """
        providers = {
            name: Provider(process, loaded, self.config if process is self.own else None)
            for name, (process, loaded) in self.providers.items()
        }
        shape = [self.rows, self.cols]
        where = (self.block, self.results)
        batches = Batches(providers, (COPY, REFERENCE), shape, self.params["dtype"], where, self._judge)
        alone = {name: timing.samples_us for name, timing in self.timings.items()}
        batches.seen(alone, BATCHES, graph=False)
        batches.capture()
        for name, taken in batches.graphs(alone, GRAPHS).items():
            self.timings[name].graph_samples_us = [max(round(one, DIGITS), 10**-DIGITS) for one in taken]

    def _clocks_part(self) -> dict | None:
        """Why what the kernel's process says is not believed, by what the judge's clock saw of both; or None."""
        # What request and answer cost, by calls of which both clocks are known to be honest.
        expected = median([*self.unseen[COPY], *self.unseen[REFERENCE]])
        for provider in (self.name, DUPLICATE):
            took = self.timings[provider].median_us
            unseen = median(self.unseen[provider])
            if unseen > expected + max(CLOCK_SLACK_US, CLOCK_SLACK * took):
                return {"code": "clock", "microseconds": took, "seen": took + unseen - expected}
        return None

    def _failed(self, reason: dict) -> Failed:
        return Failed({**reason, "at": self.own.at})


def _digest(x: torch.Tensor) -> bytes:
    """Of a tensor's bytes as they lie there: the same numbers drawn again may differ in their last bit."""
    return blake2b(x.view(torch.uint8).numpy().data).digest()
