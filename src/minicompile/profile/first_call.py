"""Measures what the first calls of a compile cost, in a process of its own, and how far they are from eager's.

A process compiles something else first, and throws it away: what its very first compile pays for, torch's own
start, is counted apart. So each mode of each model is measured from the same beginning.
"""

import gc
import logging
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from minicompile.models import CapturedModel
from minicompile.profile.refusal import NotProfiled
from minicompile.profile.subject import Step, gradients, on_gpu, results, seconds_of, step, subject, synchronise
from minicompile.safe.compile_config import CompileConfig
from minicompile.safe.compile_record import compile_report
from minicompile.safe.safe_compile import maybe_compile, uncompile
from minicompile.torch_private.dynamo import peak_cpu_bytes
from minicompile.torch_private.profiling import fresh_caches
from minilab.user_code import first_line

THROWN_AWAY = (64, 600)  # shape of what a process compiles first
ROUNDING = 1e-4  # of the largest result: two calls of eager that differ by more draw random numbers, or learn
RECORDING_CALLS = 3  # after the first: CUDA graphs warm up, record and replay
log = logging.getLogger("minilab")


def first_call(made_of: dict, config: dict, device: str, caches: str) -> dict:
    """Compile a model in this process, which has compiled nothing, and look at its first calls.

    Args:
        made_of: keyword arguments of `subject`, but for the device.
        config: fields of `CompileConfig`.
        device: a torch device.
        caches: an empty folder, which is left with what the compile puts on disk.

    Returns:
        `start_seconds`, a compile that is thrown away, with all that the process does at its first one;
        `cold_compile_seconds`, the first call with empty caches; `warm_compile_seconds`, that of a new compile
        with the caches on disk full; `max_difference`, the largest |compiled - eager|, None of a model that draws
        random numbers; `graph_breaks`; `peak_bytes` and `eager_peak_bytes`, as `peak_bytes` gives them; and
        `pool_bytes`, which CUDA graphs keep for themselves between calls, None on a CPU.

    Raises:
        NotProfiled: the model fails by itself, or its compile does.
    """
    cfg = CompileConfig.from_dict({**config, "enabled": True, "healthcheck": False, "fail_policy": "raise"})
    made = subject(**made_of, device=device)
    gpu = on_gpu(made)
    eager, compiled = step(made), step(made)
    with gradients(made):
        expected, eager_peak = _eager(made, eager, gpu)
    started = start(cfg.mode, device)
    with fresh_caches(Path(caches)), gradients(made):
        seconds = [_compiled(made, cfg, compiled, gpu) for _ in ("cold", "warm")]
        breaks = len(compile_report(made.module).graph_breaks)
        peak = peak_bytes(compiled, gpu)
        torch.manual_seed(0)
        difference = apart(expected, list(results(made, compiled())))
        pool = pool_bytes() if gpu else None
        uncompile(made.module)
    return {
        "start_seconds": started,
        "cold_compile_seconds": seconds[0],
        "warm_compile_seconds": seconds[1],
        "max_difference": difference,
        "graph_breaks": breaks,
        "peak_bytes": peak,
        "eager_peak_bytes": eager_peak,
        "pool_bytes": pool,
    }


def start(mode: str, device: str) -> float:
    """Compile a softmax in a mode and throw it away; return the seconds, those of torch's own start among them."""
    began = time.perf_counter()
    x = torch.zeros(THROWN_AWAY, device=device)
    with fresh_caches(), torch.no_grad():
        function = torch.compile(lambda x: torch.softmax(x, dim=-1), mode=mode)
        for _ in range(RECORDING_CALLS):
            function(x)
        synchronise()
    return time.perf_counter() - began


def _eager(made: CapturedModel, eager: Step, gpu: bool) -> tuple[list[torch.Tensor] | None, int | None]:
    """What eager computes, None where two calls differ, as with random numbers, and its memory."""
    try:
        first, second = ([*results(made, eager())] for _ in range(2))
        peak = peak_bytes(eager, gpu)
    except Exception as error:
        raise NotProfiled(
            f"{made.name} fails without torch.compile: {error}", "eager", raised=first_line(error)
        ) from error
    difference, largest = apart(first, second), max((one.abs().max().item() for one in first if one.numel()), default=0)
    return (first if difference is not None and difference <= ROUNDING * largest else None), peak


def _compiled(made: CapturedModel, cfg: CompileConfig, compiled: Step, gpu: bool) -> float:
    """Compile anew and call once; the seconds. What was compiled before is forgotten, but for the caches on disk."""
    torch.compiler.reset()
    gc.collect()  # the graphs of an earlier compile, and with them their pool
    if gpu:
        torch.cuda.empty_cache()
    try:
        maybe_compile(made.module, cfg, log)
        torch.compiler.cudagraph_mark_step_begin()
        seconds = seconds_of(compiled)
    except Exception as error:
        raise NotProfiled(
            f"{made.name} does not compile in mode {cfg.mode}: {error}", "compile", raised=first_line(error)
        ) from error
    if not compile_report(made.module).graphs:
        raise NotProfiled(f"torch.compile makes no graph of {made.name}; look at its capture for why.", "no_graph")
    return seconds


def apart(expected: list[torch.Tensor] | None, found: list[torch.Tensor]) -> float | None:
    """The largest difference between two lists of results; None where there is nothing to compare."""
    if not expected or [one.shape for one in expected] != [one.shape for one in found]:
        return None
    pairs = zip(expected, found, strict=True)
    return max(((one - other).abs().max().item() for one, other in pairs if one.numel()), default=None)


def peak_bytes(call: Step, gpu: bool) -> int | None:
    """The most bytes that calls hold at once beyond what was held before; the model has been called once.

    On a GPU three calls are made, so that a CUDA graph is recorded among them: its later calls allocate nothing, and
    work in what the recording allocated. On a CPU the profiler tells of one call; None where it tells nothing.
    """
    if gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        for _ in range(RECORDING_CALLS):
            torch.compiler.cudagraph_mark_step_begin()
            call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - held
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        output = call()
    del output
    return peak_cpu_bytes(profiler)


def pool_bytes() -> int:
    """The bytes of the GPU that private pools hold, those of CUDA graphs: nothing else can use them."""
    segments = torch.cuda.memory_snapshot()
    return sum(segment["total_size"] for segment in segments if tuple(segment["segment_pool_id"]) != (0, 0))
