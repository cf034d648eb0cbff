"""How fast MiniGPT writes: `python benchmarks/generate.py [--sequences N ...] [--checkpoint FILE]`.

On a GPU: microseconds a token of the one launch (`minikernel.generate`) against `torch.compile` with a static cache and
CUDA graphs, written as gpt-fast writes it, and against eager PyTorch, the three taking turns in one process, after the
same prompt; the time until the first token stands apart. Target: at most 7 microseconds a token for one sequence, and
at least 10 times the best of the others.
Without one: NumPy against PyTorch eager. Weights are the checkpoint's where there is one, else random.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from minikernel.measure.model.writers import COMPILE, EAGER, ONE, time_writers, writers  # noqa: E402
from minikernel.reasons import in_words  # noqa: E402
from minimodel.checkpoint import Checkpoint  # noqa: E402
from minimodel.model_config import MiniGPTConfig  # noqa: E402
from minimodel.numpy_minigpt import NumpyMiniGPT  # noqa: E402
from minimodel.opening import load_checkpoint  # noqa: E402
from minimodel.port import port  # noqa: E402
from minimodel.writing.generate import generate as plain  # noqa: E402
from minimodel.writing.sampling import Sampling  # noqa: E402

GIVEN, WANTED, TURNS = 16, 112, 10
TARGET_US, TARGET_RATIO = 7.0, 10.0
NAMES = {ONE: "one launch", COMPILE: "torch.compile, static cache, CUDA graphs", EAGER: "eager"}


def checkpoint_of(path: Path) -> Checkpoint:
    if path.exists():
        return load_checkpoint(path)
    sizes = MiniGPTConfig(vocab_size=600, block_size=128)
    return Checkpoint(config=sizes, arrays=NumpyMiniGPT.initialise(sizes, seed=0).arrays, metadata={})


def on_gpu(checkpoint: Checkpoint, sequences: int) -> bool:
    model = port(checkpoint)[0].cuda()
    prompt = torch.randint(0, checkpoint.config.vocab_size, (sequences, GIVEN), device="cuda")
    rows, reasons = time_writers(writers(model, sequences, GIVEN + WANTED), prompt, WANTED, TURNS)
    for name, reason in reasons.items():
        print(f"{sequences:4d} sequences  {NAMES[name]:42s} left out: {in_words(reason)}")
    for row in rows:
        taken = f"{row['us_per_token']:8.2f} us a token (20 to 80 %: {row['p20_us']:.2f} to {row['p80_us']:.2f})"
        taken += f", the first after {row['first_token_us']:.0f}"
        same = f"eager's tokens {row['same_tokens']:.1%}"
        print(
            f"{sequences:4d} sequences  {NAMES[row['rung']]:42s} {taken}, {row['tokens_per_s']:10,.0f} tokens/s, {same}"
        )
    medians = {row["rung"]: row["us_per_token"] for row in rows}
    if ONE not in medians:
        return False
    ours, best = medians[ONE], min((us for name, us in medians.items() if name != ONE), default=0.0)
    return sequences > 1 or (ours <= TARGET_US and best >= TARGET_RATIO * ours)


def on_cpu(checkpoint: Checkpoint, sequences: int) -> bool:
    torch.set_num_threads(1)
    models = {"numpy": NumpyMiniGPT.from_checkpoint(checkpoint), "torch eager": port(checkpoint)[0]}
    prompt = np.random.default_rng(0).integers(0, checkpoint.config.vocab_size, (sequences, GIVEN))
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(TURNS):
        for name, model in models.items():
            began = time.perf_counter()
            plain(model, prompt, WANTED, Sampling(1.0, seed=turn))
            times[name].append(1e6 * (time.perf_counter() - began) / (GIVEN + WANTED - 1))
    for name, taken in times.items():
        print(f"{sequences:4d} sequences  {name:12s} {statistics.median(taken):9.1f} us a token")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "results/17/checkpoint.npz")
    given = parser.parse_args()
    checkpoint = checkpoint_of(given.checkpoint)
    measure = on_gpu if torch.cuda.is_available() else on_cpu
    met = [measure(checkpoint, sequences) for sequences in given.sequences]
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
