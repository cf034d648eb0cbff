"""Times a model eager and compiled, in turn, in one run.

The two take turns step by step, so that a drifting clock hurts both alike. Each step is a whole training
step, or a call where there is nothing to train. The compiled model is proven by the smoketest before it is
timed; one that falls back to eager is reported with its reason and no time.
"""

import logging
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.compile_record import CompileReport, compile_report
from minicompile.safe.installation import eager_calls
from minicompile.safe.safe_compile import maybe_compile, uncompile
from minicompile.safe.smoketest.rewind import rewinding
from minicompile.state.batches import call_loss, copied_batch, split_batch, storages_of, tensors_of
from minicompile.torch_private import dynamo as dynamo_internals
from minilab import LabError


@dataclass
class Row:
    """One side's steps.

    Attributes:
        first_step_seconds: from the first call to the end of the first step, compiles included.
        step_seconds: median of the steady-state steps; `p20` and `p80` are percentiles.
        tokens_per_second: at the median.
        peak_bytes: most memory a step held beyond what was held before it; None where it is not known.
        seconds: every step that was timed.
    """

    provider: str
    first_step_seconds: float
    step_seconds: float
    p20: float
    p80: float
    tokens_per_second: float
    peak_bytes: int | None
    seconds: list[float]


@dataclass
class Benchmark:
    """Eager against compiled; `compiled` is None where the compile failed, and `report` says why.

    `recompiles` are those of the steady state: any is a fault of the set-up.
    """

    eager: Row
    compiled: Row | None
    recompiles: int
    tokens: int
    training: bool
    report: CompileReport

    @property
    def speedup(self) -> float | None:
        """Eager's median over the compiled one's."""
        return None if self.compiled is None else self.eager.step_seconds / self.compiled.step_seconds

    @property
    def peak_bytes_delta(self) -> int | None:
        """The compiled step's peak over the eager one's; negative where compiling saves memory."""
        compiled, eager = None if self.compiled is None else self.compiled.peak_bytes, self.eager.peak_bytes
        return None if compiled is None or eager is None else compiled - eager

    def to_dict(self) -> dict:
        """Return plain data for JSON."""
        found = {**asdict(self), "report": self.report.to_dict()}
        return {**found, "speedup": self.speedup, "peak_bytes_delta": self.peak_bytes_delta}

    def table(self) -> str:
        """Write the rows as a Markdown table, and one line on what happened."""
        lines = [
            "| | first step | step (20 to 80 %) | tokens/s | peak memory |",
            "|---|---:|---:|---:|---:|",
        ]
        for row in (self.eager, self.compiled):
            if row is not None:
                peak = "" if row.peak_bytes is None else f"{row.peak_bytes / 2**20:.2f} MiB"
                spread = f"{1e3 * row.step_seconds:.3f} ms ({1e3 * row.p20:.3f} to {1e3 * row.p80:.3f})"
                first = f"{row.first_step_seconds:.3f} s"
                lines.append(f"| {row.provider} | {first} | {spread} | {row.tokens_per_second:.0f} | {peak} |")
        if self.compiled is None:
            return "\n".join([*lines, "", f"Not compiled: {self.report.stage}: {self.report.reason}"])
        summary = f"Speed-up {self.speedup:.2f}, {self.recompiles} recompiles in the steady state"
        return "\n".join([*lines, "", f"{summary}, {len(self.report.graph_breaks)} graph breaks."])


def benchmark(
    model: nn.Module,
    cfg: CompileConfig,
    batch: Any,
    *,
    loss_fn: Callable | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    steps: int = 30,
    warmup: int = 5,
    tokens: int | None = None,
    logger: logging.Logger | None = None,
) -> Benchmark:
    """Time `model` eager and compiled on one batch. All that a step can get at ends as it began, the model eager.

    Args:
        cfg: how to compile; taken as enabled.
        batch, loss_fn, optimizer: as for `maybe_compile`. A model in `eval()` without loss_fn or optimizer is only
            called, in the grad mode that is set.
        steps, warmup: steady-state steps of each side, and those before them that are not counted.
        tokens: tokens of a batch; None counts the ids of its first integer tensor, else its rows.

    Raises:
        LabError: `steps` is not positive, or as `maybe_compile`.
    """
    if steps < 1:
        raise LabError(f"benchmark was asked for {steps} steps; ask for at least one.")
    logger = logger or logging.getLogger(__name__)
    trains = any(p.requires_grad for p in model.parameters())
    trains = trains and (model.training or loss_fn is not None or optimizer is not None)
    step = _step(model, batch, optimizer, loss_fn, trains)
    uncompile(model)
    fresh = partial(copied_batch, batch, storages_of(model, loss_fn))
    with rewinding(model, optimizer, loss_fn, batch):
        first = _seconds(step, fresh)
    enabled = CompileConfig(**{**vars(cfg), "enabled": True, "fail_policy": "fallback_eager", "healthcheck": True})
    maybe_compile(model, enabled, logger, batch, loss_fn=loss_fn, optimizer=optimizer)
    started = compile_report(model)
    try:
        with rewinding(model, optimizer, loss_fn, batch):
            sides = {"eager": _eager(model, step)} | ({"compiled": step} if started.compiled else {})
            seconds = _interleaved(sides, fresh, steps, warmup)
            peaks = {name: _peak_bytes(side, fresh) for name, side in sides.items()}
        report = compile_report(model)
    finally:
        uncompile(model)
    count = tokens or count_tokens(batch)
    # A compile that failed has no seconds, and no row to put them in.
    firsts = {"eager": first, "compiled": started.compile_seconds or math.nan}
    rows = {name: _row(name, firsts[name], values, count, peaks[name]) for name, values in seconds.items()}
    recompiles = len(report.recompiles) - len(started.recompiles)
    return Benchmark(rows["eager"], rows.get("compiled"), recompiles, count, trains, report)


def count_tokens(batch: Any) -> int:
    """Count the ids of the batch's first integer tensor, or the rows of its first tensor where it has none."""
    found = [tensor for _, tensor in tensors_of(batch)]
    for tensor in found:
        if not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool:
            return tensor.numel()
    return found[0].shape[0] if found and found[0].ndim else 1


def _step(model, batch, optimizer, loss_fn, trains: bool) -> Callable[[Any], None]:
    if trains and optimizer is None:
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def step(batch: Any) -> None:
        torch.compiler.cudagraph_mark_step_begin()
        arguments, keywords, target = split_batch(model, batch)
        output = model(*arguments, **keywords)
        if trains:
            call_loss(loss_fn, output, target).backward()
            optimizer.step()
            optimizer.zero_grad()

    return step


def _eager(model: nn.Module, step: Callable) -> Callable:
    def eager(batch: Any) -> None:
        with eager_calls(model):
            step(batch)

    return eager


def _synchronise() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _seconds(step: Callable, fresh: Callable[[], Any]) -> float:
    batch = fresh()
    _synchronise()
    started = time.perf_counter()
    step(batch)
    _synchronise()
    return time.perf_counter() - started


def _interleaved(sides: dict[str, Callable], fresh: Callable, steps: int, warmup: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(warmup + steps):
        for name, side in sides.items():
            taken = _seconds(side, fresh)
            if number >= warmup:
                seconds[name].append(taken)
    return seconds


def _peak_bytes(step: Callable, fresh: Callable[[], Any]) -> int | None:
    batch = fresh()
    tensors = [tensor for _, tensor in tensors_of(batch)]
    device: Tensor | None = next((t for t in tensors if t.is_cuda), None)
    if device is not None:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        step(batch)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - held
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(batch)
    return dynamo_internals.peak_cpu_bytes(profiler)


def _row(name: str, first: float, seconds: list[float], tokens: int, peak: int | None) -> Row:
    steps = spread_of_steps(seconds, tokens)
    return Row(provider=name, first_step_seconds=first, peak_bytes=peak, seconds=seconds, **steps)


def spread_of_steps(seconds: list[float], tokens: int) -> dict[str, float]:
    """Compute `step_seconds` (the median), `p20`, `p80` and `tokens_per_second` of steps of so many tokens each."""
    median = statistics.median(seconds)
    fifths = statistics.quantiles(seconds, n=5, method="inclusive") if len(seconds) > 1 else [median] * 4
    return {"step_seconds": median, "p20": fifths[0], "p80": fifths[-1], "tokens_per_second": tokens / median}
