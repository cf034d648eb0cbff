"""How long a training step takes on a GPU: `python benchmarks/train_in_one_launch.py [--shapes BxT ...]`.

The whole schedule of config.yaml in one launch (`minikernel.train`), and how far it ends above the grammar's entropy,
with operands of float32 and of bfloat16. Then microseconds a step against PyTorch's, optimizer and clipping included:
eager, `torch.compile`, and the compiled step in one CUDA graph, all taking turns in one process. Targets: 0.35 s for
the whole schedule, and a fifth of the compiled step in a CUDA graph. `--no-compile` leaves `torch.compile` out: the
graph is then eager's.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import torch  # noqa: E402
import yaml  # noqa: E402

from minikernel.measure.training.contest import SETTINGS, in_line, steps_at, whole  # noqa: E402
from minikernel.measure.training.names import GRAPH_OF_COMPILED, ONE  # noqa: E402
from minikernel.model.train.launch import SOURCES  # noqa: E402
from minikernel.model.train.tables import AdamW  # noqa: E402
from minimodel.corpus import TokenStream, sample_corpus  # noqa: E402
from minimodel.grammar import load_grammar  # noqa: E402
from minimodel.model_config import MiniGPTConfig  # noqa: E402
from minimodel.tokenizer import Tokenizer  # noqa: E402
from minimodel.training import HeldOut  # noqa: E402

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
TRAINING, ASKED = CONFIG["training"], CONFIG["training_contest"]
DEVICE = torch.device("cuda")


def compare(stream: TokenStream, config: MiniGPTConfig, settings: AdamW, shape: str, compiles: bool) -> None:
    """Print a step's time, each way."""
    batch, length = map(int, shape.split("x"))
    rows = steps_at(batch, length, ASKED, config, settings, stream, DEVICE, compiles)
    one = next(row["us_per_step"] for row in rows if row["rung"] == ONE)
    for row in rows:
        eagers = row["rung"] == GRAPH_OF_COMPILED and not compiles
        print(
            f"{shape:>7s}  {'graph-of-eager-step' if eagers else row['rung']:24s} {row['us_per_step']:9.1f} us a step "
            f"(p20 {row['p20_us']:.1f}, p80 {row['p80_us']:.1f}), {row['us_per_step'] / one:6.2f} times one launch",
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
    config = MiniGPTConfig(vocab_size=len(tokenizer), **CONFIG["model"])
    settings = AdamW(**{name: TRAINING[name] for name in SETTINGS if name in TRAINING})
    for operands in SOURCES:
        for seed in range(42, 42 + given.seeds):
            row = whole(config, TRAINING, settings, stream, rest, limit, seed, DEVICE, operands)
            print(f"operands of {operands}, {in_line(row)}", flush=True)
    for shape in given.shapes:
        compare(stream, config, settings, shape, not given.no_compile)


if __name__ == "__main__":
    main()
