"""The NumPy model: its gradients, its causality, what it returns and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest

from minilab import LabError
from minimodel.numpy_minigpt import MiniGPTConfig, NumpyMiniGPT, softmax

CONFIG = MiniGPTConfig(vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=8)


@pytest.fixture
def model():
    """Float64, with every array random, biases and LayerNorms too."""
    model = NumpyMiniGPT.initialise(CONFIG, seed=0).astype(np.float64)
    model.parameters += np.random.default_rng(1).normal(0, 0.3, model.parameters.shape)
    return model


@pytest.fixture
def batch():
    ids = np.random.default_rng(2).integers(0, CONFIG.vocab_size, (3, 6))
    targets = np.random.default_rng(3).integers(0, CONFIG.vocab_size, (3, 6))
    targets[0, 2] = targets[2, 5] = -1
    return ids, targets


@pytest.mark.parametrize("name", CONFIG.shapes)
def test_gradients_agree_with_central_differences(model, batch, name):
    gradient = model.loss_and_gradients(*batch)[1][name].copy()
    numeric, array, step = np.empty_like(gradient), model.arrays[name], 1e-5
    for index in np.ndindex(array.shape):
        original = array[index]
        array[index] = original + step
        above = model.loss_and_gradients(*batch)[0]
        array[index] = original - step
        below = model.loss_and_gradients(*batch)[0]
        array[index] = original
        numeric[index] = (above - below) / (2 * step)
    assert np.linalg.norm(numeric) > 0
    assert np.linalg.norm(gradient - numeric) <= 1e-6 * np.linalg.norm(numeric)


def test_gradients_do_not_remember_an_earlier_batch(model, batch):
    first = {name: g.copy() for name, g in model.loss_and_gradients(*batch)[1].items()}
    unseen = np.setdiff1d(np.arange(CONFIG.vocab_size), batch[0])[0]
    model.loss_and_gradients(np.full((3, 4), unseen), batch[1][:, :4])
    model.loss_and_gradients(batch[0][:2], batch[1][:2])
    again = model.loss_and_gradients(*batch)[1]
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_a_forward_pass_of_another_shape_leaves_the_results_the_same(model, batch):
    logits = model.forward(batch[0]).copy()
    model.forward(batch[0][:1, :3])
    assert np.array_equal(model.forward(batch[0]), logits)


def test_targets_of_minus_one_do_not_count(model, batch):
    ids, targets = batch
    losses = model.loss(ids, targets)
    assert (losses[targets == -1] == 0).all()
    loss, _ = model.loss_and_gradients(ids, targets)
    assert loss == pytest.approx(losses.sum() / (targets != -1).sum(), rel=1e-12)


def test_loss_is_the_negative_log_probability_of_the_target(model, batch):
    ids, targets = batch
    logits = model.forward(ids).copy()
    b, t = 1, 4
    log_sum = np.log(np.exp(logits[b, t]).sum())
    assert model.loss(ids, targets)[b, t] == pytest.approx(log_sum - logits[b, t, targets[b, t]], rel=1e-12)


def test_no_token_sees_a_later_one(model, batch):
    ids, _ = batch
    before = model.forward(ids).copy()
    changed = ids.copy()
    changed[:, 4:] = (changed[:, 4:] + 1) % CONFIG.vocab_size
    after = model.forward(changed)
    assert np.array_equal(before[:, :4], after[:, :4])
    assert not np.allclose(before[:, 4:], after[:, 4:])


def test_trace_names_every_layer_in_order_and_holds_copies(model, batch):
    trace = {}
    logits = model.forward(batch[0], trace).copy()
    layers = ["ln_1", "attention.qkv", "attention.probabilities", "attention.proj", "ln_2", "mlp.fc", "mlp.gelu"]
    expected = ["embedding"]
    for i in range(CONFIG.n_layer):
        expected += [f"blocks.{i}.{layer}" for layer in [*layers, "mlp.proj"]] + [f"blocks.{i}"]
    assert list(trace) == [*expected, "ln_f", "lm_head"]
    assert np.array_equal(trace["lm_head"], logits)
    assert trace["blocks.1.attention.probabilities"].shape == (3, 2, 6, 6)
    residual = trace["embedding"] + trace["blocks.0.attention.proj"] + trace["blocks.0.mlp.proj"]
    np.testing.assert_allclose(trace["blocks.0"], residual, rtol=1e-12)
    saved = {name: value.copy() for name, value in trace.items()}
    model.forward(batch[0][::-1] * 0)
    assert all(np.array_equal(saved[name], trace[name]) for name in trace)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_everything_is_computed_in_the_dtype_of_the_arrays(batch, dtype):
    model, trace = NumpyMiniGPT.initialise(CONFIG, seed=0).astype(dtype), {}
    model.forward(batch[0], trace)
    assert {value.dtype for value in trace.values()} == {np.dtype(dtype)}
    assert {gradient.dtype for gradient in model.loss_and_gradients(*batch)[1].values()} == {np.dtype(dtype)}


def test_probabilities_sum_to_one(model, batch):
    np.testing.assert_allclose(model.probabilities(batch[0]).sum(-1), 1, rtol=1e-12)


def test_softmax_survives_large_and_masked_entries():
    x = np.array([[1000.0, 999.0, -np.inf], [-np.inf, -np.inf, -1e30]])
    e = np.exp(-1.0)
    np.testing.assert_allclose(softmax(x), [[1 / (1 + e), e / (1 + e), 0], [0, 0, 1]], rtol=1e-12)


def test_the_same_seed_gives_the_same_arrays_and_another_seed_others():
    arrays = [NumpyMiniGPT.initialise(CONFIG, seed).parameters for seed in (5, 5, 6)]
    assert np.array_equal(arrays[0], arrays[1])
    assert not np.array_equal(arrays[0], arrays[2])


def test_layer_norms_start_as_the_identity():
    arrays = NumpyMiniGPT.initialise(CONFIG, seed=0).arrays
    for name in ("blocks.0.ln_1", "blocks.1.ln_2", "ln_f"):
        assert (arrays[f"{name}.weight"] == 1).all()
        assert (arrays[f"{name}.bias"] == 0).all()


def test_the_model_copies_the_arrays_that_it_is_given():
    given = NumpyMiniGPT.initialise(CONFIG, seed=0).arrays
    model = NumpyMiniGPT(CONFIG, given)
    given["lm_head.bias"][:] = 7
    assert (model.arrays["lm_head.bias"] == 0).all()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.zeros((1, 9), int), "block_size is 8"),
        (np.full((1, 2), 11), "the vocabulary from 0 to 10"),
        (np.full((1, 2), -1), "the vocabulary from 0 to 10"),
        (np.zeros(3, int), "integers of shape"),
        (np.zeros((0, 3), int), "integers of shape"),
        (np.zeros((1, 3)), "integers of shape"),
    ],
)
def test_bad_ids_are_refused(model, ids, message):
    with pytest.raises(LabError, match=message):
        model.forward(ids)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_head": 3}, "not divisible by n_head 3"),
        ({"n_layer": 0}, "n_layer is 0"),
        ({"vocab_size": 1.5}, "vocab_size is 1.5"),
        ({"block_size": True}, "block_size is True"),
    ],
)
def test_an_impossible_shape_is_refused(change, message):
    with pytest.raises(LabError, match=message):
        MiniGPTConfig(**{"vocab_size": 11, "block_size": 8, **change})


def test_missing_unknown_and_misshapen_arrays_are_refused():
    arrays = NumpyMiniGPT.initialise(CONFIG, seed=0).arrays
    without = {name: array for name, array in arrays.items() if name != "ln_f.bias"}
    with pytest.raises(LabError, match=r"'ln_f\.bias' is missing"):
        NumpyMiniGPT(CONFIG, without)
    with pytest.raises(LabError, match="'other' does not belong"):
        NumpyMiniGPT(CONFIG, {**arrays, "other": np.zeros(1)})
    with pytest.raises(LabError, match=r"'blocks.0.mlp.fc.weight' has shape \(8, 32\)"):
        NumpyMiniGPT(CONFIG, {**arrays, "blocks.0.mlp.fc.weight": arrays["blocks.0.mlp.fc.weight"].T})


def test_the_numpy_stage_does_not_import_torch():
    code = (
        "import sys, minimodel; minimodel.NumpyMiniGPT, minimodel.Tokenizer, minimodel.load_checkpoint;"
        "import minimodel.training; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
