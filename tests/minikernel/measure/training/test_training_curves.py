"""The loss against seconds: everybody trains the same, and no clock has in it what is not training."""

import numpy as np
import pytest
import torch

from minikernel.measure.training import curves
from minikernel.measure.training.curves import ByNumpy, ByTorch, Task, walk
from minikernel.model.train import launch
from minikernel.model.train.tables import AdamW
from minimodel.corpus import TokenStream
from minimodel.model_config import MiniGPTConfig
from minimodel.tokenizer import Tokenizer
from minimodel.training import HeldOut, train

WORDS = ("I", "you", "walk", "walked", ".")
TOKENIZER = Tokenizer.from_words(WORDS)
CONFIG = MiniGPTConfig(len(TOKENIZER), block_size=32, n_layer=1, n_head=2, n_embd=8)
TRAINING = {
    "phases": [{"steps": 5, "batch": 3, "time": 16}, {"steps": 3, "batch": 2, "time": 32}], "seed": 5, "threads": 1,
    "learning_rate": 0.01, "final_learning_rate": 0.001, "warmup": 2, "beta_1": 0.8, "beta_2": 0.9,
    "weight_decay": 0.1, "clip": 0.5, "evaluate_every": 3, "record_every": 1, "report_seconds": 99,
    "max_excess_percent": 1e9,
}  # fmt: skip
TEXTS = [TokenStream(["I walk.", "you walked."] * many, TOKENIZER) for many in (40, 30)]
SETTINGS = AdamW(0.01, 0.001, 2, 0.8, 0.9, 1e-8, 0.1, 0.5)
TASK = Task(CONFIG, TRAINING, SETTINGS, *TEXTS, seed=5)
CPU = torch.device("cpu")
LONG = 1e9


class Limits(HeldOut):
    """Held-out text whose limit nobody asks for."""

    def __init__(self):
        self.block_size, self._stream, self.entropy, self.surprisal = 32, TEXTS[1], 1.0, 1.0
        self.inputs, self.targets = TEXTS[1].rows(TEXTS[1].consecutive_places(32))


@pytest.fixture(scope="module")
def by_stage_17():
    _, record = train(CONFIG, TEXTS[0], Limits(), TRAINING)
    return [(each["step"], each["loss"]) for each in record["held_out_losses"]]


def prepared_by_steps(step):
    """A capture takes steps, as on a GPU."""
    step()
    step()
    return step


@pytest.mark.parametrize(
    "make",
    [
        lambda: ByNumpy(TASK),
        lambda: ByTorch(TASK, CPU),
        lambda: ByTorch(TASK, CPU, compiled=True),
        lambda: ByTorch(TASK, CPU, compiled=True, graphs=True),
    ],
    ids=["numpy", "torch", "compiled", "graphs"],
)
def test_everybody_trains_as_stage_17_does(make, by_stage_17, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda model, **_: model)
    monkeypatch.setattr(curves, "captured", prepared_by_steps)
    points = list(walk(make(), TASK, LONG))
    assert [point["steps"] for point in points] == [0, 3, 6, 8] == [step for step, _ in by_stage_17]
    np.testing.assert_allclose([point["nats"] for point in points], [loss for _, loss in by_stage_17], rtol=2e-5)
    seconds = [point["seconds"] for point in points]
    assert seconds == sorted(set(seconds))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("graphs", [False, True])
def test_on_a_gpu_pytorch_trains_as_stage_17_does(graphs, by_stage_17):
    points = walk(ByTorch(TASK, torch.device("cuda"), graphs=graphs), TASK, LONG)
    np.testing.assert_allclose([point["nats"] for point in points], [loss for _, loss in by_stage_17], rtol=1e-4)


def test_a_training_over_its_limit_ends_with_a_point_there():
    points = list(walk(ByNumpy(TASK), TASK, 1e-9))
    assert [point["steps"] for point in points] == [0, 1]
    assert points[1]["seconds"] > 1e-9


def test_a_launch_is_dated_by_what_the_host_saw_while_it_ran(monkeypatch):
    clock = iter([100.0, 100.5, 100.6, 100.9])  # before; then when 2, 6 and 8 steps had been taken

    def trained(*given, report, **options):
        for taken in (2, 6, 8):
            report(taken, 8)
        return launch.Trained(np.ones(8), np.ones(8), [(0, 16, 2.0), (4, 16, 1.5), (8, 32, 1.0)], 0.5)

    monkeypatch.setattr(launch, "train", trained)
    monkeypatch.setattr(curves.time, "perf_counter", lambda: next(clock))
    row = curves.of_launches("one", TASK, CPU)
    # the launch's own half a second ends with the last look: it began 0.4 s after the clock
    assert [point["seconds"] for point in row["points"]] == pytest.approx([0, 0.15, 0.5])
    assert [point["nats"] for point in row["points"]] == [2.0, 1.5, 1.0]


def test_every_way_has_a_row_that_says_whether_it_came_to_the_end(monkeypatch):
    point = {"steps": 8, "seconds": 1.0, "nats": 1.0}
    monkeypatch.setattr(torch, "compile", lambda model, **_: model)
    monkeypatch.setattr(curves, "captured", prepared_by_steps)
    monkeypatch.setattr(curves, "of_launches", lambda rung, *_: {"rung": rung, "points": [point]})
    rows = curves.curves(TASK, CPU, LONG, lambda line: None)
    assert [row["rung"] for row in rows] == [
        "one", "graph", "graph-of-compiled-step", "compile", "eager", "torch-cpu", "numpy",
    ]  # fmt: skip
    assert all(row["complete"] and row["prepared_seconds"] >= 0 for row in rows[2:])
