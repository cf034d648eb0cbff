"""The command `minigpt train`: trains MiniGPT as the lab does, in one launch on a GPU, else in NumPy, and says which.

It samples the corpus, trains, judges the end against the grammar's entropy and writes a checkpoint, from which
`minigpt --checkpoint FILE` writes on.
"""

import argparse
import importlib
import logging
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np

from minilab import LabError
from minilab.config.check import brought, check_schema, read_schema
from minilab.yaml_files import read_settings
from minimodel.checkpoint import Checkpoint, save_checkpoint
from minimodel.corpus import TokenStream, sample_corpus
from minimodel.grammar import load_grammar
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.tokenizer import Tokenizer
from minimodel.training import HeldOut, train

WAYS = ("auto", "gpu", "numpy")
# By name: the kernel stands above the model, which imports nothing of it.
KERNEL, SETTINGS = "minikernel.model.train.launch", "minikernel.model.train.tables"
BY_NUMPY = "Training in NumPy on the CPU"
log = logging.getLogger("minilab")


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit status. `minimodel.writing.command` words what is refused."""
    parser = argparse.ArgumentParser(prog="minigpt train", description=(__doc__ or "").split(": ", 1)[1].split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("minigpt.npz"), metavar="FILE", help="default: minigpt.npz")
    parser.add_argument("--with", choices=WAYS, default=WAYS[0], dest="way", help="default: a GPU that can, else NumPy")
    parser.add_argument("--seed", type=int, help="of weights and batches (default: training.seed)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="another config.yaml than the lab's own")
    given = parser.parse_args(arguments)
    handler = logging.StreamHandler(sys.stderr)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        return _run(given)
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _run(given: argparse.Namespace) -> int:
    # before minutes of training, not after
    if given.out.exists():
        raise LabError(f"{given.out} exists, and is not overwritten; name another file with --out.")
    if not given.out.parent.is_dir():
        raise LabError(f"{given.out.parent} is no folder; make it, or name another file with --out.")
    sections = _sections(given.config or brought("config.yaml"))
    corpus, training = sections["corpus"], dict(sections["training"])
    if given.seed is not None:
        if given.seed < 0:
            raise LabError(f"--seed is {given.seed}; make it at least 0.")
        training["seed"] = given.seed
    began, (gpu, reason) = time.monotonic(), _gpu(given.way)
    print(f"Training on {gpu}." if gpu else f"{BY_NUMPY}{reason}.", file=sys.stderr)
    grammar = load_grammar()
    tokenizer = Tokenizer.from_words(grammar.words)
    config = MiniGPTConfig(vocab_size=len(tokenizer), **sections["model"])
    lines = sample_corpus(grammar, corpus["sentences"], corpus["seed"])
    text, rest = (TokenStream(part, tokenizer) for part in (lines[: -corpus["held_out"]], lines[-corpus["held_out"] :]))
    made = _on_gpu(config, text, rest, training, otherwise=given.way == WAYS[0]) if gpu else None
    if made:
        # the kernel evaluates in rows as long as those of the phase that it is in
        held_out = HeldOut(rest, tokenizer, grammar, training["phases"][-1]["time"])
        arrays, end, seconds, launches = made
        by, excess = f"{launches} on {gpu}", held_out.excess_percent(end)
        if not excess <= training["max_excess_percent"]:
            raise LabError(
                f"the held-out loss ended {excess:.2f} % above the grammar's entropy, more than "
                f"training.max_excess_percent = {training['max_excess_percent']}; train for more steps."
            )
    else:
        held_out = HeldOut(rest, tokenizer, grammar, config.block_size)
        model, record = train(config, text, held_out, training)
        arrays = model.arrays
        end, excess, seconds = (record[name] for name in ("held_out_cross_entropy", "excess_percent", "seconds"))
        by = "with NumPy"
    save_checkpoint(given.out, arrays, config, list(tokenizer.tokens))
    whole = time.monotonic() - began
    print(
        f"Trained {by} in {seconds:.2f} s, {whole:.0f} s in all; held-out loss {end:.4f} nats a token, {excess:.2f} % "
        f'above the grammar\'s entropy. To write on: minigpt --checkpoint {given.out} "Yesterday I"'
    )
    return 0


def _sections(path: Path) -> dict:
    """The sections `corpus`, `model` and `training` of a configuration, held against the schema.

    Raises:
        LabError: the file is missing or is no YAML, or a section is missing or is not what the schema says.
    """
    schema, config = read_schema("schemas/config.schema.yaml"), read_settings(path)
    names = ("corpus", "model", "training")
    if missing := [name for name in names if name not in config]:
        raise LabError(f"{path} has no section {missing[0]}; take the lab's own config.yaml as an example.")
    part = {**schema, "required": list(names), "properties": {name: schema["properties"][name] for name in names}}
    found = {name: config[name] for name in names}
    check_schema(found, part, str(path))
    if found["corpus"]["held_out"] >= found["corpus"]["sentences"]:
        raise LabError(f"{path} holds all sentences out; make corpus.held_out smaller than corpus.sentences.")
    return found


def _gpu(way: str) -> tuple[str | None, str]:
    """The name of the GPU that is to train; or None, and why not, as the end of a sentence.

    Raises:
        LabError: a GPU is asked for, and PyTorch sees none.
    """
    if way == "numpy":
        return None, ""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name(), ""
    if way == "gpu":
        raise LabError("PyTorch sees no GPU here; train in NumPy with --with numpy.")
    return None, ": PyTorch sees no GPU here"


def _on_gpu(
    config: MiniGPTConfig, text: TokenStream, held_out: TokenStream, training: dict, *, otherwise: bool
) -> tuple[dict[str, np.ndarray], float, float, str] | None:
    """Train in one launch, or as a graph where the model is too large for that.

    Returns:
        The weights, the held-out loss at the end, what the launches took in seconds, and how many they were, in words.
        None where the kernel does not take the model, the schedule or this GPU, and `otherwise` NumPy trains; this has
        said so.

    Raises:
        LabError: that it does not, or that the training has failed.
    """
    from minimodel.port import port, torch_name

    launch, settings = importlib.import_module(KERNEL), importlib.import_module(SETTINGS).AdamW
    start = Checkpoint(config, NumpyMiniGPT.initialise(config, training["seed"]).arrays, {})
    model = port(start)[0].to("cuda")
    told, runs = time.monotonic(), False

    def report(done: int, steps: int) -> None:
        nonlocal told, runs
        runs = True
        if done == steps or time.monotonic() - told > training["report_seconds"]:
            told = time.monotonic()
            log.info("step %d of %d", done, steps)

    optimizer = settings(**{one.name: training[one.name] for one in fields(settings) if one.name in training})
    try:
        trained = launch.train(
            model, text, training["phases"], optimizer=optimizer, seed=training["seed"], held_out=held_out,
            evaluate_every=training["evaluate_every"], report=report, launches=launch.EITHER,
        )  # fmt: skip
    except LabError as error:
        if runs:
            raise
        if otherwise:
            print(f"Not on the GPU: {error}\n{BY_NUMPY}.", file=sys.stderr)
            return None
        raise LabError(f"{str(error).rstrip('.')}; or train in NumPy with --with numpy.") from None
    parameters = dict(model.named_parameters())
    arrays = {name: parameters[torch_name(name)].detach().cpu().numpy() for name in config.shapes}
    launches = {launch.ONE: "in one launch", launch.GRAPH: "in three launches a step"}[trained.launches]
    return arrays, trained.held_out[-1][2], trained.seconds, launches
