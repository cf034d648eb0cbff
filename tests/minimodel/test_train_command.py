"""`minigpt train`: which of the two trainings it takes, what it writes, and what it refuses before it trains."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from minilab import LabError
from minilab.config.check import brought
from minimodel import train_command
from minimodel.opening import load_checkpoint
from minimodel.port import torch_name
from minimodel.writing.command import main

LAB = yaml.safe_load(brought("config.yaml").read_text())
SMALL = {
    "corpus": {"sentences": 300, "held_out": 100, "seed": 3},
    "model": {"block_size": 16, "n_layer": 1, "n_head": 2, "n_embd": 8},
    "training": LAB["training"] | {"phases": [{"steps": 3, "batch": 2, "time": 16}], "max_excess_percent": 1e6},
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch) -> Path:
    """A configuration that trains in a moment, in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL))
    return path


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that is not there: torch says that it is, and the launch is a stand-in that adds one to every weight."""
    import torch

    calls: list[dict] = []

    def launch(model, tokens, schedule, *, report, **asked):
        calls.append({"schedule": schedule, **asked})
        if asked["seed"] == 13:
            raise LabError("the schedule does not fit.")
        if asked["seed"] == 14:
            report(1, 3)
            raise LabError("the loss is no longer finite at step 1.")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 1
        report(3, 3)
        launches = "graph" if asked["seed"] == 6 else "one"  # `either` was asked for
        return SimpleNamespace(held_out=[(3, 16, 5.0)], seconds=0.25, launches=launches)

    real = train_command.importlib.import_module
    of_kernel = {train_command.KERNEL: SimpleNamespace(train=launch, ONE="one", GRAPH="graph", EITHER="either")}
    stand_in = SimpleNamespace(import_module=lambda name: of_kernel.get(name) or real(name))
    monkeypatch.setattr(train_command, "importlib", stand_in)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, place: module)
    return calls


def test_in_numpy_it_says_so_trains_and_the_checkpoint_writes_on(config: Path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["train", "--config", str(config)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("Training in NumPy on the CPU: PyTorch sees no GPU here.\n")
    assert "step 3 of 3: loss" in said.err
    trained = r"Trained with NumPy in \S+ s, \d+ s in all; held-out loss \S+ nats a token, \S+ % above"
    assert re.match(trained, said.out)
    assert main(["Yesterday I", "--tokens", "2", "--checkpoint", "minigpt.npz"]) == 0


def test_on_a_gpu_it_says_so_and_writes_what_the_launch_has_made(config: Path, capsys, gpu):
    assert main(["train", "--config", str(config), "--seed", "5", "--out", "mine.npz"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("Training on NVIDIA H200.\n")
    assert "step 3 of 3" in said.err
    trained = r"Trained in one launch on NVIDIA H200 in 0.25 s, \d+ s in all; held-out loss 5.0000 nats a token"
    assert re.match(trained, said.out)
    asked = gpu[0]
    assert (asked["schedule"], asked["seed"], asked["launches"]) == (SMALL["training"]["phases"], 5, "either")
    assert asked["optimizer"].learning_rate == SMALL["training"]["learning_rate"]
    made = load_checkpoint("mine.npz")
    start = train_command.NumpyMiniGPT.initialise(made.config, 5)
    for name, array in start.arrays.items():
        assert np.array_equal(made.arrays[name], array + np.float32(1)), torch_name(name)


def test_with_numpy_a_gpu_is_left_alone(config: Path, gpu, capsys):
    assert main(["train", "--config", str(config), "--with", "numpy"]) == 0
    assert (gpu, capsys.readouterr().err[:17]) == ([], "Training in NumPy")


def test_more_launches_than_one_are_told(config: Path, gpu, capsys):
    assert main(["train", "--config", str(config), "--seed", "6"]) == 0
    assert "Trained in three launches a step on NVIDIA H200 in" in capsys.readouterr().out


def test_what_the_kernel_refuses_numpy_trains_and_why_is_said(config: Path, gpu, capsys):
    assert main(["train", "--config", str(config), "--seed", "13"]) == 0
    said = capsys.readouterr()
    assert "\nNot on the GPU: the schedule does not fit.\nTraining in NumPy on the CPU.\nstep 3 of 3" in said.err
    assert said.out.startswith("Trained with NumPy in")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--seed", "13", "--with", "gpu"], "the schedule does not fit; or train in NumPy with --with numpy."),
        (["--seed", "14"], "the loss is no longer finite at step 1."),  # it would not be in NumPy either
    ],
)
def test_what_was_asked_of_the_gpu_alone_or_has_failed_on_it_is_a_sentence_and_no_file(
    config: Path, gpu, capsys, asked, said
):
    assert main(["train", "--config", str(config), *asked]) == 1
    assert f"Error: {said}\n" in capsys.readouterr().err
    assert not Path("minigpt.npz").exists()


def test_an_end_too_far_above_the_entropy_is_refused(config: Path, gpu, capsys):
    strict = SMALL | {"training": SMALL["training"] | {"max_excess_percent": 2.0}}
    config.write_text(yaml.safe_dump(strict))
    assert main(["train", "--config", str(config)]) == 1
    assert "% above the grammar's entropy, more than training.max_excess_percent = 2.0;" in capsys.readouterr().err
    assert not Path("minigpt.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "changed", "said"),
    [
        (["--out", "small.yaml"], {}, "small.yaml exists, and is not overwritten"),
        (["--out", "none/x.npz"], {}, "none is no folder"),
        (["--seed", "-1"], {}, "--seed is -1"),
        (["--with", "gpu"], {}, "PyTorch sees no GPU here; train in NumPy with --with numpy."),
        ([], {"model": SMALL["model"] | {"n_embd": "eight"}}, "n_embd"),
        ([], {"corpus": SMALL["corpus"] | {"held_out": 300}}, "holds all sentences out"),
        ([], {"training": None}, "small.yaml: training"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_sampled(
    config: Path, capsys, monkeypatch, arguments, changed, said
):
    monkeypatch.setattr(train_command, "sample_corpus", lambda *asked: pytest.fail("sampled"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    config.write_text(yaml.safe_dump(SMALL | changed))
    assert main(["train", "--config", str(config), *arguments]) == 1
    assert said in capsys.readouterr().err


def test_behind_dashes_the_word_is_a_prompt(config: Path, capsys):
    assert main(["--", "train"]) == 1
    assert "the model does not know 'train'" in capsys.readouterr().err
    assert "train" not in sys.argv
