"""Times eager against each of torch.compile's modes at one shape: the first call, and the later ones.

The timing is `minicompile.benchmark`'s, which lets eager and compiled take turns; the profile adds what a first call
costs with empty and with warm caches, and how far the compiled output is from eager's.
"""

import logging
import statistics
import time
from pathlib import Path

import torch
from torch import nn

from minicompile import models
from minicompile.profile.breakdown import DIGITS
from minicompile.profile.rows import Side, Spread, Timing
from minicompile.safe.compile_benchmark import Row, benchmark
from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.safe_compile import maybe_compile, uncompile
from minicompile.torch_private.profiling import fresh_caches
from minilab import LabError

MODELS = ("tiny_head", "minigpt")
SLOW_SECONDS = 0.02  # a call that takes longer is timed only as often as fits into the seconds below
SLOW_CALLS_SECONDS = 2.0
FEWEST_CALLS = 10


def model_at(name: str, shape: list[int], checkpoint: str | Path, device: str) -> tuple[nn.Module, tuple]:
    """Build the model `name` with inputs of `shape` on a torch device: (batch, 64) for tiny_head, else (batch, time).

    Raises:
        LabError: the model is not one that is profiled, or does not take that shape.
    """
    if name not in MODELS:
        raise LabError(f"profile: there is no model {name!r}; write one of {', '.join(MODELS)}.")
    rows, columns = shape
    made = models.tiny_head(rows) if name == "tiny_head" else models.minigpt(checkpoint, name, (rows, columns))
    if list(made.inputs[0].shape) != list(shape):
        raise LabError(f"profile: tiny_head takes shapes (batch, {made.inputs[0].shape[1]}), not {tuple(shape)}.")
    return made.module.to(device), tuple(value.to(device) for value in made.inputs)


def affordable_calls(module: nn.Module, inputs: tuple, calls: int) -> int:
    """Decide how many of `calls` to time: all, or those of two seconds (10 at least) where one takes over 20 ms."""
    with torch.no_grad():
        taken = []
        for _ in range(5):
            began = time.perf_counter()
            module(*inputs)
            if inputs[0].is_cuda:
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - began)
    seconds = min(taken)
    return calls if seconds <= SLOW_SECONDS else min(calls, max(FEWEST_CALLS, int(SLOW_CALLS_SECONDS / seconds)))


def time_mode(module: nn.Module, inputs: tuple, cfg: CompileConfig, calls: int, logger: logging.Logger) -> Timing:
    """Time one mode against eager on one batch.

    Args:
        cfg: how to compile, in one of Inductor's presets; taken as enabled.
        calls: warm calls of each side that are timed.

    Returns:
        `mode`, `calls`, `cold_compile_seconds` (first call, nothing cached), `warm_compile_seconds` (first call of a
        new compile, the caches on disk full), `max_difference` (largest |compiled - eager|), `recompiles`,
        `graph_breaks`, `speedup` (eager's median over the compiled one's), and for `eager` and `compiled` each
        `median_us`, `p20_us`, `p80_us`, `per_second` (tokens, or rows where there are none), `peak_bytes`, `tokens` of
        a call and `samples_us`, every call.

    Raises:
        LabError: the model does not compile, or compiles to something that computes other numbers.
    """
    with fresh_caches(), torch.no_grad():
        batch = inputs[0] if len(inputs) == 1 else inputs  # a tuple would be matched to the arguments at each call
        timed = benchmark(module, cfg, batch, steps=calls, warmup=20, logger=logger)
        if timed.compiled is None:
            raise LabError(f"mode {cfg.mode} could not be profiled: {timed.report.stage}: {timed.report.reason}")
        torch.compiler.reset()
        at_first_call = {"enabled": True, "healthcheck": False, "fail_policy": "raise"}
        maybe_compile(module, CompileConfig(**{**vars(cfg), **at_first_call}), logger)
        began = time.perf_counter()
        output = module(*inputs).clone()  # with CUDA graphs the next call writes where this result lies
        warm = time.perf_counter() - began
        difference = (output - uncompile(module)(*inputs)).abs().max().item()
    eager, compiled = (_side(row, timed.tokens) for row in (timed.eager, timed.compiled))
    return {
        "mode": cfg.mode,
        "calls": calls,
        "cold_compile_seconds": timed.compiled.first_step_seconds,
        "warm_compile_seconds": warm,
        "max_difference": difference,
        "recompiles": timed.recompiles,
        "graph_breaks": len(timed.report.graph_breaks),
        "speedup": eager["median_us"] / compiled["median_us"],
        "eager": eager,
        "compiled": compiled,
    }


def _side(row: Row, tokens: int) -> Side:
    samples_us = [round(1e6 * seconds, DIGITS) for seconds in row.seconds]
    return {**spread(samples_us, tokens), "peak_bytes": row.peak_bytes, "tokens": tokens, "samples_us": samples_us}


def spread(samples_us: list[float], tokens: int) -> Spread:
    """Compute `median_us`, `p20_us`, `p80_us` and `per_second` of calls of so many tokens (or rows)."""
    median = statistics.median(samples_us)
    fifths = statistics.quantiles(samples_us, n=5) if len(samples_us) > 1 else [median] * 4
    return {"median_us": median, "p20_us": fifths[0], "p80_us": fifths[-1], "per_second": 1e6 * tokens / median}
