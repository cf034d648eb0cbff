"""The training timed on a CPU, with a stand-in for the launch: what is asked of it, and what follows from samples."""

import gc
import json
import weakref
from statistics import median

import numpy as np
import pytest
import torch

from minikernel.measure.training import contest, rungs
from minikernel.measure.training.figures import bars, training_contest
from minikernel.model.train import launch
from minikernel.model.train.tables import AdamW
from minilab.config.check import check_schema, read_schema
from minilab.records.artefact import artefact
from minilab.records.compare import figures
from minilab.records.provenance import provenance
from minilab.records.verify import differences
from minimodel.corpus import TokenStream
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.optim import AdamW as NumpyAdamW
from minimodel.optim import clip_gradients
from minimodel.port import torch_name
from minimodel.tokenizer import Tokenizer

WORDS = ("I", "you", "walk", "walked", ".")
TOKENIZER = Tokenizer.from_words(WORDS)
CONFIG = MiniGPTConfig(len(TOKENIZER), block_size=32, n_layer=1, n_head=2, n_embd=8)
PARAMS = {
    "turns": 3,
    "steps": {"eager": 1, "compile": 1, "graph-of-compiled-step": 1, "graph": 2, "one": 4},
    "seeds": [42, 7],
    "curve_seconds": 0,
    "time_limit_seconds": 100,
    "training": {
        "phases": [{"steps": 2, "batch": 3, "time": 16}, {"steps": 1, "batch": 2, "time": 32}],
        "learning_rate": 0.01, "final_learning_rate": 0.001, "warmup": 1, "beta_1": 0.8, "beta_2": 0.9,
        "weight_decay": 0.1, "clip": 0.5, "evaluate_every": 2,
    },
}  # fmt: skip


def text() -> TokenStream:
    return TokenStream(["I walk.", "you walked."] * 40, TOKENIZER)


@pytest.fixture
def asked(monkeypatch) -> list[dict]:
    """What the launch, which stands in for the kernel's, was asked for."""
    seen: list[dict] = []

    def train(model, tokens, schedule, *, optimizer, seed, held_out=None, evaluate_every=200, **way):
        phases = [tuple(phase.values()) if isinstance(phase, dict) else phase for phase in schedule]
        steps = sum(phase[0] for phase in phases)
        seen.append(
            {
                "phases": phases,
                "seed": seed,
                "optimizer": optimizer,
                "judged": held_out is not None,
                "way": way.get("launches", "one"),
            }
        )
        evaluations = [(0, 16, 1.5), (2, 16, 1.2), (3, 32, 1.01 + seed / 1000)]
        return launch.Trained(np.ones(steps), np.ones(steps), evaluations, (0.004 + len(seen) % 2 / 1000))

    def timeline(model, tokens, batch, length, *, launches):
        # two blocks: one waits for the other, 3,000 and 1,000 cycles of arithmetic
        stamps = np.zeros((2, 8, 2), np.int64)
        stamps[:, 0] = [[4, 1000], [9, 2000]]
        stamps[:, 1, 1] = 500
        stamps[0, 2:4] = [[2 + 256 * 8, 3500], [1 + 256 * 10, 4000 + len(launches)]]
        stamps[1, 2:5] = [[3 + 256 * 9, 1500], [2 + 256 * 9, 2500], [1 + 256 * 10, 3000]]
        return stamps

    monkeypatch.setattr(launch, "train", train)
    monkeypatch.setattr(launch, "timeline", timeline)
    monkeypatch.setattr(contest, "cycles_per_us", lambda device: 1000.0)
    monkeypatch.setattr(rungs, "captured", lambda step: step)
    monkeypatch.setattr(torch, "compile", lambda model: model)
    return seen


def run(**changed) -> dict:
    made = contest.run_contest(PARAMS | changed, CONFIG, text(), text(), 1.0, "cpu", lambda line: None)
    return json.loads(json.dumps(made, allow_nan=False))


def test_every_rung_at_every_shape_and_every_seed_as_the_schema_has_it(asked):
    made = run()
    check_schema(
        {"provenance": provenance([], PARAMS, "h200"), **made}, read_schema(artefact("training_contest").schema), ""
    )
    names = ["eager", "compile", "graph-of-compiled-step", "graph", "one"]
    assert [(row["batch"], row["rung"]) for row in made["steps"]] == [(b, name) for b in (3, 2) for name in names]
    assert all(len(taken) == 3 for row in made["steps"] for taken in row["samples_us"].values())
    wholes = [call for call in asked if call["judged"]]
    assert [(call["seed"], call["phases"]) for call in wholes] == [(s, [(2, 3, 16), (1, 2, 32)]) for s in (42, 7)]
    assert wholes[0]["optimizer"] == AdamW(0.01, 0.001, 1, 0.8, 0.9, 1e-8, 0.1, 0.5)
    # two timings of the launch a turn, and a turn before those that count
    steps = [(call["way"], call["phases"]) for call in asked if not call["judged"]]
    for way, many, times in (("one", 4, 8), ("graph", 2, 4)):
        of_way = [phases for name, phases in steps if name == way]
        assert of_way == [[(many, 3, 16)]] * times + [[(many, 2, 32)]] * times
    assert [row["tokens"] for row in made["whole"]] == [2 * 48 + 64] * 2
    assert [at["tokens"] for at in made["whole"][0]["held_out"]] == [0, 96, 160]
    assert [row["excess_percent"] for row in made["whole"]] == pytest.approx([5.2, 1.7])
    assert made["complete"]


def test_the_time_of_a_step_is_shared_out_by_what_its_blocks_did(asked):
    made = run()
    assert [(line["rung"], line["batch"]) for line in made["timelines"]] == [
        (r, b) for b in (3, 2) for r in ("graph", "one")
    ]
    line = made["timelines"][1]
    assert line["tick_ns"] == 1000
    assert [block["sm"] for block in line["blocks"]] == [4, 9]
    stamped, parts = line["stamped"], line["parts"]
    assert (stamped["arithmetic_us"], stamped["waiting_us"]) == (4.0, 1.0)
    assert stamped["memory_us"] == pytest.approx(0.503 + 0.5)
    us = made["steps"][4]["us_per_step"]
    assert sum(part for part in parts.values() if part is not None) == pytest.approx(us)
    # the second block began a microsecond after the first: what it did not run counts as waiting
    assert parts["arithmetic_us"] / parts["memory_us"] == pytest.approx(4.0 / 1.003)
    made["timelines"][1]["parts"]["waiting_us"] *= 2
    assert any("timelines[1]" in found["where"] for found in differences(made, training_contest(made)))


def test_a_time_limit_leaves_shapes_out_and_says_so(asked):
    made = run(time_limit_seconds=0)
    assert (made["steps"], made["complete"]) == ([], False)
    assert [(out["batch"], out["time"]) for out in made["left_out"]] == [(3, 16), (2, 32)]
    assert [bar["what"] for bar in made["bars"]] == ["seconds", "excess"]


def test_every_figure_follows_from_the_samples(asked):
    made = run()
    assert list(differences(made, training_contest(made))) == []
    row = made["steps"][4]
    assert row["us_per_step"] == pytest.approx(median(row["samples_us"]["one"]))
    assert row["noise_floor"] == pytest.approx(abs(median(row["samples_us"]["again"]) / row["us_per_step"] - 1))
    made["steps"][1]["p80_us"] *= 2
    made["whole"][1]["excess_percent"] = 0.1
    found = {found["where"] for found in differences(made, training_contest(made))}
    assert {"steps[1].p80_us", "whole[1].excess_percent"} <= found


def test_a_second_measurement_can_be_compared(asked):
    found = figures(made := run())
    assert found["one 3x16, a training step"].median == made["steps"][4]["us_per_step"]
    assert len(found) == 10


@pytest.mark.parametrize(("graph", "met"), [(499.0, False), (500.0, True)])
def test_a_bar_is_a_ratio_or_the_worst_seed(graph, met):
    us = {"eager": 6000.0, "graph-of-compiled-step": graph, "graph": 200.0, "one": 100.0}
    steps = [{"rung": rung, "batch": 8, "time": 128, "us_per_step": value} for rung, value in us.items()]
    whole = [{"seconds": 0.2, "excess_percent": 2.5}, {"seconds": 0.36, "excess_percent": 1.0}]
    found = [(bar["what"], bar["value"], bar["met"]) for bar in bars(steps, whole)]
    ours = ("step", graph / 200, met)
    assert found == [
        ("step", graph / 100, met),
        ("step", 60.0, True),
        ours,
        ("seconds", 0.36, False),
        ("excess", 2.5, False),
    ]


def test_a_captured_step_keeps_what_its_addresses_point_to(monkeypatch):
    class Nothing:
        replay = capture_begin = wait_stream = lambda self, *_: None
        __enter__ = __exit__ = lambda self, *_: None

    for name in ("Stream", "current_stream", "stream", "CUDAGraph", "graph"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, **__: Nothing())

    def step():
        pass

    held = weakref.ref(step)
    replay = rungs.captured(step)
    del step
    gc.collect()
    assert held() is not None
    replay()


def test_pytorchs_step_is_numpys():
    """The rungs do the work that they are timed for: clipping, decay and AdamW as NumPy's training."""
    settings = AdamW(beta_1=0.8, beta_2=0.9, weight_decay=0.3, clip=0.05)
    ids, targets = text().rows(text().random_places(np.random.default_rng(1), 3, 16))
    made = rungs.model_at_start(CONFIG, 5, torch.device("cpu"))
    step = rungs.torch_step(made, torch.from_numpy(ids), torch.from_numpy(targets), settings, compiled=False)
    own = NumpyMiniGPT.initialise(CONFIG, 5)
    matrices = [array for array in own.arrays.values() if array.ndim == 2]
    optimiser = NumpyAdamW(own.parameters, matrices, betas=(0.8, 0.9), weight_decay=0.3)
    for _ in range(3):
        step()
        own.loss_and_gradients(ids, targets)
        assert clip_gradients(own.gradients, 0.05) > 0.05
        optimiser.step(own.gradients, rungs.RATE)
    parameters = dict(made.named_parameters())
    for name, array in own.arrays.items():
        assert np.allclose(parameters[torch_name(name)].detach().numpy(), array, rtol=1e-4, atol=2e-6), name
