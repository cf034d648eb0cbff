"""The CPU's rungs against F.softmax and against a copy: `python benchmarks/cpu_ladder.py [--shape ROWS COLUMNS]`.

All take turns in one process, each call on another of the inputs, which no cache holds. A kernel is held against the
copy that gets its result's memory as it does: one into fresh memory, or, for `streaming`, which uses its memory again,
one into memory that is there. Each time is a median, `to F.softmax` is how many times as fast as it, and a second
timing of `streaming` shows the noise. The targets: the last rung at least 90 % as fast as its copy, and twice as fast
as F.softmax. A quiet machine is needed; the load is printed.
"""

import argparse
import os
import sys
from functools import partial

import torch
import torch.nn.functional as F

from minikernel.measure.timing import measure, rotating_inputs
from minikernel.ops.cpu.build import built
from minikernel.ops.ladder.table import LADDERS, load_kernel
from minikernel.proof.accuracy import softmax_error
from minilab import LabError
from minilab.device import cpu_name, short_name, usable_cores

COPY_SHARE, SPEED_UP = 0.9, 2.0
REUSING = "streaming"
WORST = 1e-6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", type=int, nargs=2, default=[32768, 600], metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--calls", type=int, default=100, help="timed calls of each")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    inputs = rotating_inputs(*arguments.shape, torch.float32, torch.device("cpu"), seed=42)
    there = torch.empty_like(inputs[0])
    rungs = {name: load_kernel(name) for name in LADDERS["C++"]}
    for name, rung in rungs.items():
        if (error := softmax_error(rung(inputs[0]), inputs[0])) > WORST:
            sys.exit(f"{name} is wrong by {error:.1e}; its time says nothing.")
    others = {"F.softmax": partial(F.softmax, dim=-1), "copy": there.copy_, "copy, fresh": torch.clone}
    timed = measure({**rungs, **others, "again": rungs[REUSING]}, inputs, 3, arguments.calls)

    shape = " x ".join(f"{size:,}" for size in arguments.shape)
    left_out = {what for name in rungs for what in built(name).left_out}
    print(f"softmax of {shape} float32 on {short_name(cpu_name())}, {arguments.threads} threads, load {load()}")
    print(f"{'':14s} {'ms':>8s} {'20 to 80 %':>16s} {'to F.softmax':>13s} {'of its copy':>12s}")
    for name, timing in timed.items():
        ms, low, high = timing.median_us / 1e3, timing.percentile(20) / 1e3, timing.percentile(80) / 1e3
        line = f"{name:14s} {ms:8.2f} {f'{low:.2f} to {high:.2f}':>16s} {speed_up(timed, name):12.2f}x"
        print(line if name in others else f"{line} {share(timed, name):11.0%}")
    noise = abs(timed["again"].median_us / timed[REUSING].median_us - 1)
    print(f"timing {REUSING} twice gave results {noise:.1%} apart" + (f"; built without {left_out}" * bool(left_out)))
    return int(share(timed, REUSING) < COPY_SHARE or speed_up(timed, REUSING) < SPEED_UP)


def load() -> str:
    """The machine's load in the last minute, this benchmark's own included."""
    return f"{os.getloadavg()[0]:.1f}"


def speed_up(timed: dict, name: str) -> float:
    """How many times as fast as F.softmax."""
    return timed["F.softmax"].median_us / timed[name].median_us


def share(timed: dict, name: str) -> float:
    """The share of the bandwidth of the copy that gets its memory alike."""
    copy = "copy" if name in (REUSING, "again") else "copy, fresh"
    return timed[copy].median_us / timed[name].median_us


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(str(error))
