"""Trains a few steps of each run of a job as one rank, in a process of its own, and writes down what it saw.

Started by `launch.run_ranks` as `python -m minicompile.distributed.worker FOLDER RANK`, with the job in
`FOLDER/job.json`. It leaves `result-RANK.json` there, or `error-RANK.json`, and ends when its parent does.
"""

import gc
import os
import sys
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist

from minicompile.distributed.collectives import CollectiveCounter
from minicompile.distributed.formulas import PIPELINES
from minicompile.distributed.memory import LiveTensors
from minicompile.distributed.parts import batches, build_model
from minicompile.distributed.patterns import PATTERNS, Training
from minicompile.distributed.pipeline import Stretches, alone_seconds
from minicompile.distributed.rows import Job, RankResult
from minilab.files import read_json, write_json

SETTLING = 2  # steps before anything is counted: DDP rebuilds its buckets in the second one
COUNTED = 1  # steps whose collectives and memory are counted; slower, so not timed


def measure_rank(job: Job, rank: int, pattern: str, dtype: str) -> RankResult:
    """Train and measure one rank of one run of a job.

    Args:
        job: `devices` (one torch device a rank), `sizes`, `seed`, `learning_rate`, `batch`, `microbatches`, `steps`
            (timed ones).
        rank: this process's.
        pattern: a key of `patterns.PATTERNS`.
        dtype: the name of a torch dtype, of weights, activations, gradients and moments.

    Returns:
        `losses` of every step, null where this rank does not know them; `step_seconds` of the timed ones, and of a
        pipeline what it computed in each; `collectives` and `peak_memory_bytes` of one step.
    """
    device, sizes = torch.device(job["devices"][rank]), job["sizes"]
    before = _allocated(device)
    memory, busy = LiveTensors(), Stretches(device)
    with memory:
        training = Training(job["learning_rate"], job["microbatches"], device, busy)
        step = PATTERNS[pattern](build_model(sizes, job["seed"], device, dtype), training)
        data = batches(sizes, job["batch"], SETTLING + COUNTED + job["steps"], job["seed"])
        data = [(ids.to(device), targets.to(device)) for ids, targets in data]
        losses = [step(*data[i]) for i in range(SETTLING)]
        memory.reset_peak()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        with CollectiveCounter() as counter:
            losses.append(step(*data[SETTLING]))
        peak = torch.cuda.max_memory_allocated(device) - before if device.type == "cuda" else memory.peak
    seconds, computed = [], []
    _synchronize(device)
    busy.take()
    for ids, targets in data[SETTLING + COUNTED :]:
        _synchronize(device)
        start = time.perf_counter()
        losses.append(step(ids, targets))
        _synchronize(device)
        seconds.append(time.perf_counter() - start)
        computed.append(busy.take())
    return {
        "losses": [None if loss is None else loss.item() for loss in losses],
        "step_seconds": seconds,
        "busy_seconds": computed if pattern in PIPELINES else [],
        "alone_seconds": _alone(job, pattern, dtype, device) if pattern in ("tp", "pp") else [],
        "collectives": counter.counts,
        "peak_memory_bytes": peak,
    }


def _alone(job: Job, pattern: str, dtype: str, device: torch.device) -> list[float]:
    shape = (job["batch"], job["sizes"]["block_size"], job["sizes"]["n_embd"])
    hidden = torch.zeros(shape, device=device, dtype=getattr(torch, dtype))
    return alone_seconds(pattern, hidden, job["microbatches"])


def _allocated(device: torch.device) -> int:
    """Free what an earlier run left, and return the bytes of a GPU that are still taken."""
    gc.collect()
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(device)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _join(job: Job, rank: int, folder: Path) -> None:
    """Meet the other ranks through a file in the job's folder: no port, no host name."""
    device = torch.device(job["devices"][rank])
    torch.set_num_threads(job["threads"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if len(job["devices"]) > 1:
        dist.init_process_group(
            job["backend"],
            init_method=f"file://{folder / 'rendezvous'}",
            rank=rank,
            world_size=len(job["devices"]),
            timeout=timedelta(seconds=job["time_limit_seconds"]),
            device_id=device if device.type == "cuda" else None,
        )


def _end_with_parent() -> None:
    """Leave when the parent's end of our standard input closes, whatever ended it."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(folder: Path, rank: int) -> None:
    _end_with_parent()
    doing = ""
    try:
        job = cast(Job, read_json(folder / "job.json"))
        _join(job, rank, folder)
        results = []
        for pattern, dtype in job["runs"]:
            doing = f"{pattern} in {dtype}"
            results.append(measure_rank(job, rank, pattern, dtype))
        write_json(folder / f"result-{rank}.json", results)
        if dist.is_initialized():
            dist.barrier()  # nobody leaves while another still talks to it
            dist.destroy_process_group()
    except Exception as error:
        message = (str(error).strip() or "no message").splitlines()[0]
        failure = {
            "type": type(error).__name__,
            "message": message,
            "traceback": traceback.format_exc(),
            "doing": doing,
        }
        write_json(folder / f"error-{rank}.json", {**failure, "time": time.time()})
        os._exit(1)  # at once: destructors of a broken process group may wait for the others


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
