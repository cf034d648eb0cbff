"""Runs patterns one after the other on N ranks, each a process of its own, and brings back what each measured."""

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

from minicompile.distributed.rows import Job, RankResult
from minilab import LabError
from minilab.files import read_json, write_json

log = logging.getLogger("minilab")
POLL = 0.05  # seconds


def run_ranks(job: Job) -> list[list[RankResult]]:
    """Run a job on as many processes as it has devices.

    Args:
        job: what every rank is told; `backend` is `gloo` or `nccl`.

    Returns:
        For each of the job's runs one result a rank, in their order.

    Raises:
        LabError: a rank failed, or the job ran past its time limit. No process is left behind.
    """
    ranks = len(job["devices"])
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        folder = Path(name)
        write_json(folder / "job.json", job)
        processes: list[subprocess.Popen] = []
        try:
            for rank in range(ranks):
                processes.append(_start(folder, rank))
            _wait(processes, folder, job)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.communicate()
        by_rank = [cast(list[RankResult], read_json(folder / f"result-{rank}.json")) for rank in range(ranks)]
        return [list(results) for results in zip(*by_rank, strict=True)]


def environment() -> dict[str, str]:
    """Set the ranks' environment variables: gloo on the loopback interface, NCCL without NVLink multicast.

    Multicast (NVLS) needs rights on the host's switches that a shared machine does not give.
    """
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    return {"GLOO_SOCKET_IFNAME": loopback, **os.environ, "NCCL_NVLS_ENABLE": "0"}


def _start(folder: Path, rank: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "minicompile.distributed.worker", str(folder), str(rank)]
    with open(folder / f"log-{rank}.txt", "wb") as output:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment())


def _wait(processes: list[subprocess.Popen], folder: Path, job: Job) -> None:
    """Return when all ranks are done; raise as soon as one has failed or time is up."""
    patterns = ", ".join(dict.fromkeys(pattern for pattern, _ in job["runs"]))
    what = f"training under {patterns} on {len(processes)} rank{'s' if len(processes) > 1 else ''}"
    end = time.monotonic() + job["time_limit_seconds"]
    while None in (codes := [process.poll() for process in processes]) or any(codes):
        if any(codes):
            raise LabError(f"{what} failed: {first_failure(codes, folder)}.")
        if time.monotonic() > end:
            raise LabError(
                f"{what} did not end within {job['time_limit_seconds']:g} seconds; raise "
                "distributed.time_limit_seconds, or make the model or the batch smaller."
            )
        time.sleep(POLL)


def first_failure(codes: list[int | None], folder: Path) -> str:
    """Say which rank failed first and how: one that was killed, or else the one whose exception is the oldest.

    The others fail because of it, with a broken connection that explains nothing.
    """
    for rank, code in enumerate(codes):
        if code is not None and code < 0:
            return f"rank {rank} was ended by {signal.Signals(-code).name}"
    errors = {rank: path for rank in range(len(codes)) if (path := folder / f"error-{rank}.json").exists()}
    if not errors:
        rank = next(rank for rank, code in enumerate(codes) if code)
        last = (folder / f"log-{rank}.txt").read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
        return f"rank {rank} left with status {codes[rank]} after {last[0]!r}"
    rank, error = min(((rank, read_json(path)) for rank, path in errors.items()), key=lambda item: item[1]["time"])
    log.info("%s", error["traceback"])
    during = f", under {error['doing']}," if error["doing"] else ""
    return f"rank {rank}{during} raised {error['type']}: {error['message'].rstrip('.')}"
