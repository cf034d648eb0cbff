"""How long a training step takes on a GPU: `python benchmarks/train_in_one_launch.py [--shapes BxT ...]`.

The whole schedule of config.yaml in one launch (`minikernel.train`), and how far it ends above the grammar's entropy.
Then microseconds a step against PyTorch's, optimizer and clipping included: eager, `torch.compile`, and the compiled
step in one CUDA graph, all taking turns in one process. Targets: 0.35 s for the whole schedule, and a fifth of the
compiled step in a CUDA graph. `--no-compile` leaves `torch.compile` out: the graph is then eager's.
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
import yaml  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from minikernel.model.train.launch import train  # noqa: E402
from minikernel.model.train.tables import AdamW  # noqa: E402
from minimodel.checkpoint import Checkpoint  # noqa: E402
from minimodel.corpus import TokenStream, sample_corpus  # noqa: E402
from minimodel.grammar import load_grammar  # noqa: E402
from minimodel.model_config import MiniGPTConfig  # noqa: E402
from minimodel.numpy_minigpt import NumpyMiniGPT  # noqa: E402
from minimodel.port import port  # noqa: E402
from minimodel.tokenizer import Tokenizer  # noqa: E402
from minimodel.training import HeldOut  # noqa: E402

SETTINGS = AdamW()
TURNS, STEPS = 5, {"one launch": 200, "graph": 200, "compile": 30, "eager": 30}
TARGET_RATIO, TARGET_SECONDS = 5.0, 0.35


def model_of(words: int, seed: int):
    """A model at its start, on the GPU."""
    config = MiniGPTConfig(vocab_size=words, block_size=128)
    return port(Checkpoint(config, NumpyMiniGPT.initialise(config, seed).arrays, {}))[0].cuda().train()


def torch_step(words: int, ids, targets, compiled: bool):
    """A step of PyTorch's training on one batch, as a function without arguments."""
    model = model_of(words, 0)
    matrices = [each for each in model.parameters() if each.ndim == 2]
    vectors = [each for each in model.parameters() if each.ndim == 1]
    groups = [{"params": matrices, "weight_decay": SETTINGS.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    betas = (SETTINGS.beta_1, SETTINGS.beta_2)
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=betas, fused=True, capturable=True)
    call = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(call(ids).flatten(0, 1), targets.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS.clip)
        optimizer.step()

    return step


def captured(step):
    """The step as the replay of one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def microseconds(step, steps: int) -> float:
    """Wall time of a step, many in a row."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - begun) / steps


def compare(stream: TokenStream, words: int, batch: int, length: int, compiles: bool) -> None:
    """Print a step's time, each way."""
    rows = stream.rows(stream.random_places(np.random.default_rng(0), batch, length))
    ids, targets = (torch.from_numpy(each).cuda() for each in rows)
    eager = torch_step(words, ids, targets, False)
    ways = {"eager": eager, "graph": captured(torch_step(words, ids, targets, compiles))}
    if compiles:
        ways["compile"] = torch_step(words, ids, targets, True)
    model, times = model_of(words, 0), {name: [] for name in ["one launch", *ways]}
    calm = AdamW(learning_rate=1e-4, final_learning_rate=1e-4)
    for turn in range(TURNS + 1):
        for name, step in ways.items():
            taken = microseconds(step, STEPS[name])
            times[name] += [taken] if turn else []  # the first turn warms up
        trained = train(model, stream, [(STEPS["one launch"], batch, length)], optimizer=calm, seed=turn)
        times["one launch"] += [1e6 * trained.seconds / STEPS["one launch"]] if turn else []
    medians = {name: statistics.median(of) for name, of in times.items()}
    for name, median in medians.items():
        what = {"graph": f"{'compiled' if compiles else 'eager'} step in one CUDA graph"}.get(name, name)
        ratio = median / medians["one launch"]
        print(
            f"{batch:3d} x {length:3d}  {what:36s} {median:9.1f} us a step ({min(times[name]):.1f} to "
            f"{max(times[name]):.1f}), {ratio:6.2f} times one launch",
            flush=True,
        )


def whole(stream: TokenStream, held_out: TokenStream, limit: float, words: int, seeds: int) -> None:
    """Print what the whole schedule takes, and where it ends."""
    phases = yaml.safe_load((ROOT / "config.yaml").read_text())["training"]["phases"]
    for seed in range(42, 42 + seeds):
        model = model_of(words, seed)
        trained = train(model, stream, phases, seed=seed, held_out=held_out)
        end = trained.held_out[-1][2]
        print(
            f"seed {seed}: {trained.seconds:.3f} s for {len(trained.losses)} steps and {len(trained.held_out)} "
            f"evaluations; held-out loss {end:.4f}, {100 * (end / limit - 1):.2f} % above the grammar's entropy",
            flush=True,
        )


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", nargs="*", default=["64x16", "32x32", "8x128"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a GPU")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    grammar = load_grammar()
    tokenizer = Tokenizer.from_words(grammar.words)
    lines = sample_corpus(grammar, 250000, 42)
    stream, rest = TokenStream(lines[:-4000], tokenizer), TokenStream(lines[-4000:], tokenizer)
    limit = HeldOut(rest, tokenizer, grammar, 128).limit
    whole(stream, rest, limit, len(tokenizer), given.seeds)
    for shape in given.shapes:
        batch, length = map(int, shape.split("x"))
        compare(stream, len(tokenizer), batch, length, not given.no_compile)


if __name__ == "__main__":
    main()
