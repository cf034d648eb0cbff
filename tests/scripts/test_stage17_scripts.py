"""The three scripts of stage 17, run by hand one after the other on a small configuration."""

from pathlib import Path

import pytest
from forks import script

from minimodel import NumpyMiniGPT, Tokenizer, load_checkpoint

ROOT = Path(__file__).parents[2]
DATA = ROOT / "src/minimodel/data"
CORPUS = {"sentences": 600, "held_out": 100, "seed": 42}
MODEL = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 32}
TRAINING = {
    "seed": 42,
    "threads": 1,
    "phases": [{"steps": 40, "batch": 16, "time": 16}, {"steps": 10, "batch": 8, "time": 32}],
    "learning_rate": 0.01,
    "final_learning_rate": 0.001,
    "warmup": 5,
    "beta_1": 0.9,
    "beta_2": 0.99,
    "weight_decay": 0.01,
    "clip": 1.0,
    "evaluate_every": 25,
    "record_every": 10,
    "report_seconds": 60,
    "max_excess_percent": 150.0,
}


def run_script(name, **arguments):
    words = [f"{key.replace('__', '.')}={value}" for key, value in arguments.items()]
    return script(name, *words)


def corpus(folder):
    return run_script(
        "corpus",
        input__lexicon=DATA / "lexicon.yaml",
        input__grammar=DATA / "grammar.yaml",
        input__lib=[],
        output__corpus=folder / "corpus.txt",
        output__vocabulary=folder / "vocab.json",
        params__corpus=CORPUS,
    )


def train(folder, training=TRAINING):
    return run_script(
        "train",
        input__corpus=folder / "corpus.txt",
        input__vocabulary=folder / "vocab.json",
        input__lexicon=DATA / "lexicon.yaml",
        input__grammar=DATA / "grammar.yaml",
        input__lib=[],
        output__weights=folder / "training.npz",
        output__record=folder / "training.json",
        params__model=MODEL,
        params__corpus=CORPUS,
        params__training=training,
    )


def export(folder):
    return run_script(
        "export_checkpoint",
        input__weights=folder / "training.npz",
        input__vocabulary=folder / "vocab.json",
        input__lib=[],
        output__checkpoint=folder / "checkpoint.npz",
        output__description=folder / "checkpoint.json",
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stage17")
    for step in (corpus, train, export):
        done = step(folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_the_corpus_has_one_sentence_a_line(results):
    lines = (results / "corpus.txt").read_text().splitlines()
    assert len(lines) == CORPUS["sentences"]
    assert all(line.count(".") == 1 and line.endswith(".") for line in lines)


def test_the_checkpoint_holds_the_trained_arrays_and_the_vocabulary(results):
    trained, checkpoint = (load_checkpoint(results / f"{name}.npz") for name in ("training", "checkpoint"))
    assert all(trained.arrays[name].tobytes() == a.tobytes() for name, a in checkpoint.arrays.items())
    assert checkpoint.tokens == list(Tokenizer.load(results / "vocab.json").tokens)
    assert NumpyMiniGPT.from_checkpoint(checkpoint).config.n_embd == MODEL["n_embd"]


def test_a_training_that_stays_too_far_from_the_limit_leaves_nothing(results, tmp_path):
    for name in ("corpus.txt", "vocab.json"):
        (tmp_path / name).write_bytes((results / name).read_bytes())
    failed = train(tmp_path, {**TRAINING, "max_excess_percent": 0.001})
    assert failed.returncode == 1
    assert "Error: held-out cross-entropy" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "vocab.json"]
