"""What watching a compile costs: `python benchmarks/capture.py`.

MiniGPT as the lab trained it, or of its sizes with random weights, is compiled cold for the CPU with and without the
capture, the two taking turns, each in a fresh process with all caches off. Printed is the ratio of the medians;
target: at most 1.1.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

TARGET = 1.1
CHECKPOINT = Path("results/17/checkpoint.npz")


def model():
    """The model to compile, and its inputs."""
    from minicompile.models import CapturedModel, NextWord, last_axis_softmax, minigpt

    if CHECKPOINT.exists():
        return minigpt(CHECKPOINT)
    import torch

    from minimodel import GrammarMiniGPT, MiniGPTConfig

    module = GrammarMiniGPT(MiniGPTConfig(vocab_size=600, block_size=128))
    return CapturedModel("minigpt", NextWord(module, last_axis_softmax), (torch.randint(0, 600, (2, 16)),))


def compile_once(watched: bool) -> float:
    """Seconds of one compile and call in this process."""
    import torch

    from minicompile.lowering.capture import capture

    made = model()
    began = time.perf_counter()
    if watched:
        capture(made.module, made.inputs)
    else:
        with torch._inductor.config.patch(force_disable_caches=True), torch.no_grad():
            torch.compile(made.module)(*made.inputs)
    return time.perf_counter() - began


def in_fresh_process(watched: bool) -> float:
    command = [sys.executable, __file__, "--once", "watched" if watched else "plain"]
    return float(subprocess.run(command, check=True, text=True, capture_output=True).stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3, help="compiles of each side")
    parser.add_argument("--once", choices=["plain", "watched"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(compile_once(arguments.once == "watched"))
        return 0
    seconds = {False: [], True: []}
    for _ in range(arguments.turns):
        for watched, times in seconds.items():
            times.append(in_fresh_process(watched))
    plain, watched = (statistics.median(times) for times in seconds.values())
    print(f"cold compile of MiniGPT (2, 16) for the CPU, median of {arguments.turns} fresh processes each")
    print(f"plain    {plain:6.1f} s   ({', '.join(f'{value:.1f}' for value in seconds[False])})")
    print(f"captured {watched:6.1f} s   ({', '.join(f'{value:.1f}' for value in seconds[True])})")
    print(f"ratio    {watched / plain:6.2f}     (target: at most {TARGET})")
    return int(watched / plain > TARGET)


if __name__ == "__main__":
    sys.exit(main())
