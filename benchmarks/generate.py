"""How fast MiniGPT writes: `python benchmarks/generate.py [--sequences N ...] [--checkpoint FILE]`.

On a GPU: microseconds a token of the one launch (`minikernel.generate`) against `torch.compile` with a static cache and
CUDA graphs, written as gpt-fast writes it, and against eager PyTorch, the three taking turns in one process, after the
same prompt. Target: at most 7 microseconds a token for one sequence, and at least 10 times the best of the others.
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

from minimodel.checkpoint import Checkpoint  # noqa: E402
from minimodel.model_config import MiniGPTConfig  # noqa: E402
from minimodel.numpy_minigpt import NumpyMiniGPT  # noqa: E402
from minimodel.opening import load_checkpoint  # noqa: E402
from minimodel.port import port  # noqa: E402
from minimodel.writing.generate import generate as plain  # noqa: E402
from minimodel.writing.sampling import Sampling  # noqa: E402
from minimodel.writing.torch_writer import TorchWriter  # noqa: E402

GIVEN, WANTED, TURNS = 16, 112, 10
TARGET_US, TARGET_RATIO = 7.0, 10.0


def checkpoint_of(path: Path) -> Checkpoint:
    if path.exists():
        return load_checkpoint(path)
    sizes = MiniGPTConfig(vocab_size=600, block_size=128)
    return Checkpoint(config=sizes, arrays=NumpyMiniGPT.initialise(sizes, seed=0).arrays, metadata={})


def compiled_writer(model, sequences: int):
    """Greedy text by a step compiled with CUDA graphs; nothing is read back before the end."""
    writer = TorchWriter(model, sequences)
    for tensor in (tensor for pair in writer.cache for tensor in pair):
        torch._dynamo.mark_static_address(tensor)  # or no CUDA graph is made of what writes to it

    @torch.compile(mode="reduce-overhead", fullgraph=True)
    def step(ids, place):
        return writer.forward(ids, place).argmax(-1)

    places = [torch.tensor([place], device="cuda") for place in range(GIVEN + WANTED)]

    @torch.no_grad()
    def write(prompt):
        made = []
        newest = prompt[:, 0].contiguous()
        for place in range(GIVEN + WANTED - 1):
            torch.compiler.cudagraph_mark_step_begin()
            after = step(newest, places[place]).clone()
            newest = prompt[:, place + 1].contiguous() if place + 1 < GIVEN else after
            if place + 1 >= GIVEN:
                made.append(newest)
        return torch.stack(made, 1)

    return write


def microseconds(write, prompt) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    write(prompt)
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - began) / (GIVEN + WANTED - 1)


def on_gpu(checkpoint: Checkpoint, sequences: int) -> bool:
    from minikernel.model.launch import generate

    model = port(checkpoint)[0].cuda()
    prompt = torch.randint(0, checkpoint.config.vocab_size, (sequences, GIVEN), device="cuda")
    sides = {
        "one launch": lambda ids: generate(model, ids, WANTED, fall_back=False),
        "torch.compile, static cache, CUDA graphs": compiled_writer(model, sequences),
        "eager": lambda ids: torch.as_tensor(plain(model, ids, WANTED)),
    }
    texts = {name: write(prompt).cpu() for name, write in sides.items() for _ in range(3)}  # and warm
    same = {name: (text == texts["one launch"]).float().mean().item() for name, text in texts.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(TURNS):
        for name, write in sides.items():
            times[name].append(microseconds(write, prompt))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    ours, best = medians["one launch"], min(medians[name] for name in sides if name != "one launch")
    for name, taken in times.items():
        low, *_, high = statistics.quantiles(taken, n=5)
        rate = f"{medians[name]:8.2f} us a token (20 to 80 %: {low:.2f} to {high:.2f})"
        print(
            f"{sequences:4d} sequences  {name:42s} {rate}, {1e6 * sequences / medians[name]:10,.0f} tokens/s, "
            f"{medians[name] / ours:6.1f} x, same tokens {same[name]:.1%}"
        )
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
