"""The port trained eager and compiled: it follows the NumPy training, and says what the figures say."""

import copy
import json
import logging
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safe_models import lying

from minicompile.recompute import training
from minicompile.report.training_plot import draw, heading
from minicompile.report.training_report import interpretation
from minicompile.training.measure import largest_difference, measure, recorded_steps
from minicompile.training.trainer import Trainer, batches
from minilab import LabError
from minilab.config.check import check_schema, read_schema
from minilab.records.verify import differences
from minimodel.corpus import TokenStream, sample_corpus
from minimodel.grammar import Grammar
from minimodel.model_config import MiniGPTConfig
from minimodel.tokenizer import Tokenizer
from minimodel.training import HeldOut, train

SCHEMA = read_schema(Path(__file__).parents[3] / "schemas/port_training.schema.yaml")
COIN = Grammar({("Sentence",): {("heads", "up"): 0.75, ("tails", "down"): 0.25}})
TOKENIZER = Tokenizer.from_words(COIN.words)
CONFIG = MiniGPTConfig(vocab_size=len(TOKENIZER), block_size=12, n_layer=1, n_head=2, n_embd=8)
TRAINING = {
    "seed": 42,
    "threads": 1,
    "phases": [{"steps": 25, "batch": 16, "time": 6}, {"steps": 15, "batch": 8, "time": 12}],
    "learning_rate": 0.03,
    "final_learning_rate": 0.001,
    "warmup": 5,
    "beta_1": 0.9,
    "beta_2": 0.99,
    "weight_decay": 0.3,  # so much that leaving it out would show
    "clip": 0.5,
    "evaluate_every": 50,
    "record_every": 3,
    "report_seconds": 60,
    "max_excess_percent": 1000.0,
}
PROVENANCE = {"device": "cpu-x", "date": "2026-11-21T00:00:00+00:00", "hardware": {"cpu": "Some Chip", "gpu": None}}
logger = logging.getLogger("training")


def text(seed: int) -> TokenStream:
    return TokenStream(sample_corpus(COIN, 300, seed), TOKENIZER)


@pytest.fixture(scope="module")
def numpy_run() -> dict:
    held_out = HeldOut(text(2), TOKENIZER, COIN, CONFIG.block_size)
    return train(CONFIG, text(1), held_out, TRAINING)[1]


def trained(
    numpy_run: dict,
    steps: int | None = None,
    training: dict = TRAINING,
    device: str = "cpu",
    loss: str = "logits",
    **compile_config,
) -> dict:
    torch.compiler.reset()
    compiling = {"enabled": True, "backend": "eager", **compile_config}
    params = {"training": training, "steps": steps, "loss": loss, "compile": compiling}
    before = torch.get_num_threads()
    try:
        made = measure(CONFIG, text(1), text(2), params, numpy_run, device, logger)
    finally:
        torch.set_num_threads(before)
    return {**made, "provenance": PROVENANCE}


@pytest.fixture(scope="module")
def made(numpy_run: dict) -> dict:
    return trained(numpy_run)


def test_the_artefact_fits_its_schema(made: dict):
    check_schema(json.loads(json.dumps(made)), SCHEMA, "training.json")


def test_the_port_follows_the_numpy_training_step_for_step(made: dict, numpy_run: dict):
    assert made["numpy"]["steps"] == [point["step"] for point in numpy_run["losses"]] == made["steps"]
    for step, loss in zip(made["numpy"]["steps"], made["numpy"]["losses"], strict=True):
        assert made["eager"]["losses"][step - 1] == pytest.approx(loss, rel=1e-4)
    assert made["eager"]["losses"][-1] < 0.8 * made["eager"]["losses"][0]
    ours = made["eager"]["held_out_cross_entropy"]
    assert ours == pytest.approx(made["numpy"]["held_out_cross_entropy"], rel=1e-4)


def test_compiled_trains_on_the_same_rows_and_its_recompiles_are_told(made: dict):
    assert made["compile"]["compiled"]
    assert made["compiled"]["losses"] == pytest.approx(made["eager"]["losses"], rel=1e-4)
    assert len(made["compile"]["recompiles"]) == 1  # the second phase's batches have another shape
    assert any("1 recompile, for 2 graphs" in sentence for sentence in interpretation(made))


def test_clocks_run_on_and_the_compile_is_on_the_compiled_one(made: dict):
    for side in (made["eager"], made["compiled"]):
        assert side["seconds"] == sorted(side["seconds"])
        assert side["first_step_seconds"] == side["seconds"][0]
    assert made["compiled"]["first_step_seconds"] > made["compile"]["seconds"]
    assert made["tokens"][-1] == 25 * 16 * 6 + 15 * 8 * 12


def test_without_logits_the_curve_is_the_same_to_its_noise(made: dict, numpy_run: dict):
    fused = trained(numpy_run, loss="fused")
    check_schema(json.loads(json.dumps(fused)), SCHEMA, "training.json")
    assert fused["compile"]["compiled"]
    assert "keeps no logits" in interpretation(fused)[0]
    # what rounding makes of the curve: the same batches, their rows in another order
    turned = Trainer(CONFIG, TRAINING, "cpu")
    for batch in batches(text(1), TRAINING, None, "cpu"):
        turned.stretch([batch._replace(ids=batch.ids.flip(0), targets=batch.targets.flip(0))])
    noise = largest_difference(made["eager"]["losses"], turned.losses)["nats"]
    for side in ("eager", "compiled"):
        assert 0 < largest_difference(made["eager"]["losses"], fused[side]["losses"])["nats"] < 4 * noise


def test_fewer_steps_are_the_first_of_the_schedule(made: dict, numpy_run: dict):
    fewer = trained(numpy_run, steps=8)
    assert fewer["steps"] == [1, 4, 7, 8]
    assert fewer["eager"]["losses"] == pytest.approx(made["eager"]["losses"][:8], rel=1e-5)
    assert fewer["numpy"]["steps"] == [1, 4, 7]
    assert fewer["numpy"]["held_out_cross_entropy"] is None  # of a model that was trained for longer
    assert not any("grammar's own entropy" in sentence for sentence in interpretation(fewer))


def test_a_backend_that_lies_trains_eager_and_the_report_says_so(numpy_run: dict):
    found = trained(numpy_run, steps=8, backend=lying)
    assert found["compile"]["stage"] == "numerics"
    assert found["largest_difference"]["nats"] == 0
    sentences = interpretation(found)
    assert any("failed at the stage `numerics`" in sentence for sentence in sentences)
    assert not any("times as fast" in sentence for sentence in sentences)


def test_under_the_raise_policy_a_compile_that_fails_ends_the_training(numpy_run: dict):
    with pytest.raises(LabError, match="the compiled model is wrong"):
        trained(numpy_run, steps=8, backend=lying, fail_policy="raise")


@pytest.mark.parametrize("decays", [True, False])
def test_matrices_decay_and_the_rest_does_not(decays: bool):
    optimizer = Trainer(CONFIG, TRAINING, "cpu").optimizer
    (group,) = [group for group in optimizer.param_groups if (group["weight_decay"] > 0) == decays]
    assert all((parameter.ndim == 2) == decays for parameter in group["params"])
    assert len(group["params"]) == sum((len(shape) == 2) == decays for shape in CONFIG.shapes.values())


def test_the_batches_are_those_of_the_numpy_training():
    found = list(batches(text(1), TRAINING, 30, "cpu"))
    generator = np.random.default_rng(TRAINING["seed"])
    first = text(1).rows(text(1).random_places(generator, 16, 6))
    assert np.array_equal(found[0].ids.numpy(), first[0])
    assert np.array_equal(found[0].targets.numpy(), first[1])
    assert [tuple(batch.ids.shape) for batch in found] == [(16, 6)] * 25 + [(8, 12)] * 5
    assert max(batch.learning_rate for batch in found) == TRAINING["learning_rate"]


def test_a_loss_that_is_no_longer_finite_is_refused(numpy_run: dict):
    with pytest.raises(LabError, match=r"the port's loss is no longer finite .* lower training.learning_rate"):
        trained(numpy_run, training={**TRAINING, "learning_rate": 1e30, "warmup": 0})


def test_the_clock_is_read_where_numpy_keeps_its_losses():
    assert recorded_steps(8, 3) == [1, 4, 7, 8]
    assert recorded_steps(7, 3) == [1, 4, 7]
    with pytest.raises(LabError, match="a single step"):
        recorded_steps(1, 3)


def test_the_largest_difference_names_its_step():
    assert largest_difference([3.0, 2.0, 1.0], [3.0, 2.5, 1.25]) == {"step": 2, "nats": 0.5}


def test_the_picture_is_drawn_and_says_where_its_figures_come_from(made: dict, tmp_path: Path):
    draw(made, tmp_path / "training.png")
    assert (tmp_path / "training.png").stat().st_size > 20_000
    assert heading(made) == "MiniGPT trained on Some Chip (measured on 2026-11-21)"
    restored = {**made, "restored": {"stale": True}}
    assert heading(restored) == "MiniGPT trained on Some Chip (record of 2026-11-21, stale)"


def test_the_figures_follow_from_the_losses_and_the_clocks(made: dict):
    assert list(differences(made, training(made))) == []
    edited = copy.deepcopy(made)
    edited["compiled"]["tokens_per_second"] *= 2
    edited["largest_difference"]["nats"] = 0.5
    found = list(differences(edited, training(edited)))
    assert [each["where"] for each in found] == ["compiled.tokens_per_second", "largest_difference.nats"]


def test_losses_are_per_token(made: dict):
    assert made["eager"]["losses"][0] == pytest.approx(math.log(CONFIG.vocab_size), rel=0.2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_port_follows_the_numpy_training_too(numpy_run: dict):
    found = trained(numpy_run, device="cuda", backend="inductor")
    assert found["compile"]["compiled"]
    check_schema(json.loads(json.dumps(found)), SCHEMA, "training.json")
    losses = [found["eager"]["losses"][step - 1] for step in found["numpy"]["steps"]]
    assert losses == pytest.approx(found["numpy"]["losses"], rel=1e-3)
    assert found["compiled"]["losses"] == pytest.approx(found["eager"]["losses"], rel=1e-3)
