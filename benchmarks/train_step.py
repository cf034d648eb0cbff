"""NumPy's training step against PyTorch eager's: `python benchmarks/train_step.py`.

Same initial weights, same batches of shape (64, 16), same number of threads, AdamW and clipping on both
sides, the two taking turns in one process. Each step's time is a median; the losses must agree, or the two
would not be doing the same work. Target: a ratio of at most 1.2. A quiet machine is needed.
"""

import argparse
import os
import statistics
import sys
import time

TARGET = 1.2
TURNS = 10
# The first steps of a turn are not counted: the other library's idle threads still spin on the cores.
SETTLE = 5


def steps(threads: int):
    """(NumPy's step, PyTorch's step): functions of ids and targets (64, 16) that return the loss."""
    import torch
    from threadpoolctl import threadpool_limits
    from torch.nn import functional as F

    from minimodel import GrammarMiniGPT, MiniGPTConfig, NumpyMiniGPT
    from minimodel.optim import AdamW, clip_gradients
    from minimodel.port import torch_name
    from minimodel.torch_optim import decay_groups

    threadpool_limits(threads, user_api="blas")
    torch.set_num_threads(threads)
    ours = NumpyMiniGPT.initialise(MiniGPTConfig(vocab_size=600, block_size=128), seed=42)
    optimiser = AdamW(ours.parameters, [a for a in ours.arrays.values() if a.ndim == 2], betas=(0.9, 0.99))

    theirs = GrammarMiniGPT(ours.config)
    theirs.load_state_dict({torch_name(n): torch.from_numpy(a.copy()) for n, a in ours.arrays.items()})
    peer = torch.optim.AdamW(decay_groups(theirs, 0.01), lr=3e-3, betas=(0.9, 0.99))

    def numpy_step(ids, targets) -> float:
        loss, _ = ours.loss_and_gradients(ids, targets)
        clip_gradients(ours.gradients, 1.0)
        optimiser.step(ours.gradients, 3e-3)
        return loss

    def torch_step(ids, targets) -> float:
        logits = theirs(torch.from_numpy(ids))
        loss = F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(targets).flatten())
        peer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        peer.step()
        return loss.item()

    return numpy_step, torch_step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--steps", type=int, default=200, help="timed steps of each side")
    arguments = parser.parse_args()

    import numpy as np

    generator = np.random.default_rng(42)
    sides = dict(zip(("NumPy", "PyTorch eager"), steps(arguments.threads), strict=True))
    seconds = {name: [] for name in sides}
    for turn in range(TURNS):
        batches = generator.integers(0, 600, (SETTLE + arguments.steps // TURNS, 2, 64, 16))
        losses = {}
        for name, step in sides.items():
            for number, (ids, targets) in enumerate(batches):
                started = time.perf_counter()
                losses[name] = step(ids, targets)
                if number >= SETTLE:
                    seconds[name].append(time.perf_counter() - started)
        ours, theirs = losses.values()
        if turn == 0 and abs(ours / theirs - 1) > 1e-3:
            sys.exit(f"the losses {ours:.5f} and {theirs:.5f} differ: this is not the same model.")

    medians = {}
    print(f"training step, batch (64, 16), {arguments.threads} threads, {arguments.steps} steps each")
    for name, values in seconds.items():
        low, *_, high = statistics.quantiles(values, n=5)
        medians[name] = statistics.median(values)
        print(f"{name:14s} {1e3 * medians[name]:6.2f} ms   (20 to 80 %: {1e3 * low:.2f} to {1e3 * high:.2f})")
    ratio = medians["NumPy"] / medians["PyTorch eager"]
    print(f"ratio          {ratio:6.2f}      (target: at most {TARGET})")
    return int(ratio > TARGET)


if __name__ == "__main__":
    sys.exit(main())
