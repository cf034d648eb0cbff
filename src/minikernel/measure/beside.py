"""What jobs on other cores do to the times of a GPU: the noise floor without them and with them.

The lab lets training, captures and proofs run on the cores that a job which times a GPU leaves free. Here processes
that multiply matrices stand for them.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from minikernel.measure.noise import DUPLICATE, floors
from minikernel.measure.timing import Timing, measure, raw, rotating_inputs, timings_of
from minilab import LabError
from minilab.device import usable_cores
from minilab.directives import BESIDE, QUIET

SHAPES = ((4096, 600), (524288, 600))  # some microseconds, and half a millisecond
ORDER = ("alone", "beside", "beside", "alone")  # so that a device that warms up favours neither
TIMED = "F.softmax"
WARMUP, LAUNCHES = 3, 100
WORK = """
import numpy
a = numpy.ones((512, 512))
print(flush=True)
while True:
    a @ a
"""


def noise_beside(device: torch.device, seed: int = 0) -> dict | None:
    """The noise floors of one device alone and with `BESIDE` busy processes; None where too few cores are left.

    Returns:
        {"processes", "rows": for each shape rows, cols, dtype, and of both `alone` and `beside` as `figures` gives
        them, with how many cores of the machine were `busy`, and the raw samples of both timings}.
    """
    if device.type == "cpu" or usable_cores() < QUIET + BESIDE:
        return None
    return {"processes": BESIDE, "rows": [noise_at(shape, device, BESIDE, seed) for shape in SHAPES]}


def noise_at(shape: tuple[int, int], device: torch.device, processes: int, seed: int) -> dict:
    """One row of `noise_beside`."""
    inputs = rotating_inputs(*shape, torch.float32, device, seed)
    timings: dict[str, list[dict]] = {name: [] for name in ORDER}
    cores: dict[str, list[float]] = {name: [] for name in ORDER}
    for name in ORDER:
        with busy(processes if name == "beside" else 0), counted() as taken:
            found = measure({TIMED: softmax, DUPLICATE: softmax}, inputs, WARMUP, LAUNCHES)
        timings[name].append(dict(raw(found)))
        cores[name].append(taken())
    ways = {
        name: {"busy": statistics.mean(cores[name]), **(samples := joined(timings[name])), **figures(samples)}
        for name in timings
    }
    return {"rows": shape[0], "cols": shape[1], "dtype": "float32", **ways}


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def joined(rounds: list[dict]) -> dict:
    """Raw samples of several rounds as those of one."""
    return {
        kind: {name: [us for one in rounds for us in one[kind][name]] for name in rounds[0][kind]}
        for kind in ("samples_us", "graph_samples_us")
    }


def figures(samples: dict) -> dict:
    """`median_us`, and how far the duplicate lay from it: what follows from raw samples."""
    timings: dict[str, Timing] = timings_of([samples])
    return {"median_us": timings[TIMED].median_us, **floors(timings, TIMED)}


@contextmanager
def busy(processes: int) -> Iterator[list[subprocess.Popen]]:
    """So many processes that each keep a core and its caches busy; they have begun when this begins."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads}
    command = [sys.executable, "-c", WORK]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(processes)]
    try:
        for process in started:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise LabError("a process that was to be busy beside the timing ended; see the log for why.")
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


@contextmanager
def counted() -> Iterator[Callable[[], float]]:
    """How many cores of the machine others than this process kept busy on average; asked for afterwards."""
    began = time.perf_counter(), machine_seconds() - time.process_time()
    ended: list[float] = []
    yield lambda: max((ended[1] - began[1]) / (ended[0] - began[0]), 0.0)
    ended[:] = time.perf_counter(), machine_seconds() - time.process_time()


def machine_seconds() -> float:
    """Seconds for which the machine's cores were busy, all together, by the kernel's count in hundredths."""
    user, nice, system, _, _, *others = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + sum(others[:3])) / 100
