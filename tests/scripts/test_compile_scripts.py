"""The scripts of compiling safely, by hand: a model's health, the port's training, its picture."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from forks import script

from minilab.config.check import check_schema, read_schema
from minilab.device import cpu_device
from minilab.files import read_json

ROOT = Path(__file__).parents[2]
CPU = cpu_device()
COMPILE = {**yaml.safe_load((ROOT / "config.yaml").read_text())["compile"], "backend": "aot_eager"}
CORPUS = {"sentences": 600, "held_out": 100, "seed": 42}
MODEL = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 32}
TRAINING = {
    "seed": 42,
    "threads": 1,
    "phases": [{"steps": 20, "batch": 16, "time": 16}],
    "learning_rate": 0.01,
    "final_learning_rate": 0.001,
    "warmup": 5,
    "beta_1": 0.9,
    "beta_2": 0.99,
    "weight_decay": 0.01,
    "clip": 1.0,
    "evaluate_every": 20,
    "record_every": 5,
    "report_seconds": 60,
    "max_excess_percent": 1000.0,
}


def run_script(name: str, **arguments: object) -> subprocess.CompletedProcess:
    words = [
        f"{key.replace('__', '.')}={value if isinstance(value, str | Path) else json.dumps(value)}"
        for key, value in arguments.items()
    ]
    return script(name, *words)


def health(device: str, output: Path) -> subprocess.CompletedProcess:
    return run_script(
        "compile_health", wildcards__model="tiny_head", wildcards__device=device, input__sources=["config.yaml"],
        input__schema="schemas/compile_health.schema.yaml", output__health=output,
        params__measuring={"entry": None, "shape": [2, 16], "compile": COMPILE},
    )  # fmt: skip


def test_compile_health_writes_what_its_schema_asks_for(tmp_path: Path):
    done = health(CPU, tmp_path / "health.json")
    assert done.returncode == 0, done.stderr
    found = read_json(tmp_path / "health.json")
    assert (found["model"], found["healthy"], found["config"]["backend"]) == ("tiny_head", True, "aot_eager")
    assert found["benchmark"]["training"] is False
    assert str(ROOT) not in json.dumps(found["benchmark"])


def test_the_port_is_trained_and_drawn(tmp_path: Path):
    data, corpus, vocabulary = ROOT / "src/minimodel/data", tmp_path / "corpus.txt", tmp_path / "vocab.json"
    texts = {"input__lexicon": data / "lexicon.yaml", "input__grammar": data / "grammar.yaml"}
    run_script(
        "corpus", **texts, output__corpus=corpus, input__lib=[], output__vocabulary=vocabulary, params__corpus=CORPUS
    )
    numpy_run = tmp_path / "numpy.json"
    run_script(
        "train", **texts, input__corpus=corpus, input__vocabulary=vocabulary, output__weights=tmp_path / "weights.npz",
        input__lib=[], output__record=numpy_run,
        params__model=MODEL, params__training=TRAINING, params__corpus=CORPUS,
    )  # fmt: skip
    training, picture = tmp_path / "training.json", tmp_path / "training.png"
    params = {"model": MODEL, "training": TRAINING, "corpus": CORPUS, "steps": None, "compile": COMPILE}
    done = run_script(
        "train_port", wildcards__device=CPU, input__corpus=corpus, input__vocabulary=vocabulary, input__numpy=numpy_run,
        input__sources=["config.yaml"], input__schema="schemas/port_training.schema.yaml", output__training=training,
        params__measuring=params,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = read_json(training)
    check_schema(made, read_schema(ROOT / "schemas/port_training.schema.yaml"), "training.json")
    losses = [made["eager"]["losses"][step - 1] for step in made["numpy"]["steps"]]
    assert losses == pytest.approx(made["numpy"]["losses"], rel=1e-3)
    assert made["provenance"]["params"] == params
    drawn = run_script("training_picture", input__training=training, params__language="es", output__picture=picture)
    assert drawn.returncode == 0, drawn.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
