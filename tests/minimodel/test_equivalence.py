"""Whatever is wrong with a port is found, and the layer and the array are named."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from random_checkpoint import SQUARE, random_checkpoint

from minilab import LabError
from minimodel.equivalence import (
    check_equivalence,
    compare_layers,
    compare_outputs,
    difference,
    one_thread,
    rms,
    tolerance_used,
)
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.port import port
from minimodel.torch_minigpt import GrammarMiniGPT, layer_names

# Each square array, and the first layer whose output it reaches.
SQUARE_ARRAYS = {
    "token_embedding.weight": "embedding",
    "position_embedding.weight": "embedding",
    "lm_head.weight": "lm_head",
} | {f"blocks.{i}.attention.proj.weight": f"blocks.{i}.attention.proj" for i in range(SQUARE.n_layer)}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """What differs is computed again; here at once, for no other machine's fault is waited out."""
    monkeypatch.setattr("minimodel.equivalence.PAUSE_SECONDS", 0)


@pytest.fixture
def checkpoint():
    return random_checkpoint()


@pytest.fixture
def model(checkpoint):
    return port(checkpoint)[0]


def overwrite(model, name, values):
    with torch.no_grad():
        model.get_parameter(name).copy_(values.clone())


def test_a_faithful_port_passes_and_every_layer_is_reported(checkpoint, model):
    report = check_equivalence(checkpoint, model)
    assert [row["layer"] for row in report["layers"]] == layer_names(SQUARE)
    assert report["contract"]["shape"] == [2, 16]
    shapes = [further["shape"] for further in report["further_shapes"]]
    assert shapes[0] == [1, 1]
    assert shapes[-1] == [8, SQUARE.block_size]
    assert len(shapes) == 10


def test_every_square_array_is_tried():
    shapes = {name: tuple(parameter.shape) for name, parameter in GrammarMiniGPT(SQUARE).named_parameters()}
    square = {name for name, shape in shapes.items() if len(shape) == 2 and shape[0] == shape[1]}
    assert square == set(SQUARE_ARRAYS)


@pytest.mark.parametrize(("name", "layer"), SQUARE_ARRAYS.items())
def test_a_transposed_square_weight_is_found_and_named(checkpoint, model, name, layer):
    overwrite(model, name, model.get_parameter(name).T)
    numpy_name = name.removesuffix(".weight") if "embedding" in name else name
    with pytest.raises(LabError) as caught:
        check_equivalence(checkpoint, model)
    assert f"layer {layer} of the port differs" in str(caught.value)
    assert f"in {numpy_name} (transposed); port again" in str(caught.value)


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_transposed_query_key_or_value_is_found_and_named(checkpoint, model, part):
    weight = model.get_parameter("blocks.1.attention.qkv.weight").detach().clone()
    rows = slice(part * SQUARE.n_embd, (part + 1) * SQUARE.n_embd)
    weight[rows] = weight[rows].T.clone()
    overwrite(model, "blocks.1.attention.qkv.weight", weight)
    with pytest.raises(LabError, match=r"layer blocks\.1\.attention\.qkv .*in blocks\.1\.attention\.qkv\.weight"):
        check_equivalence(checkpoint, model)


def test_swapped_blocks_are_found_and_named(checkpoint, model):
    model.blocks[1], model.blocks[2] = model.blocks[2], model.blocks[1]
    with pytest.raises(LabError) as caught:
        check_equivalence(checkpoint, model)
    assert "layer blocks.1.ln_1 of the port differs" in str(caught.value)
    assert "blocks.1.attention.qkv.weight (holds blocks.2.attention.qkv.weight)" in str(caught.value)
    assert re.search(r"\) and \d+ more; port again\.$", str(caught.value))
    assert "blocks.0." not in str(caught.value)


def test_a_weight_that_no_tested_id_reaches_is_still_found(checkpoint, model):
    values = model.get_parameter("ln_f.bias").detach().clone()
    values[0] = torch.nextafter(values[0], torch.tensor(torch.inf))
    overwrite(model, "ln_f.bias", values)
    with pytest.raises(LabError, match=r"the layers agree on these ids, .*in ln_f\.bias \(other values\)"):
        check_equivalence(checkpoint, model)


def test_wrong_code_with_right_weights_names_the_layer_alone(checkpoint, model):
    model.blocks[2].mlp.gelu = torch.nn.GELU()  # exact, where the model has the tanh form
    with pytest.raises(LabError, match=r"layer blocks\.2\.mlp\.gelu .*look at the layer's code"):
        check_equivalence(checkpoint, model)


def test_a_wrong_final_softmax_is_found(checkpoint, model):
    model.softmax = lambda logits: torch.zeros_like(logits)
    with pytest.raises(LabError, match="probabilities differ from NumPy's"):
        check_equivalence(checkpoint, model)


def test_a_layer_norm_with_another_epsilon_is_found_in_float64_alone(checkpoint, model):
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5 * (1 + 1e-4)
    with pytest.raises(LabError, match="In float64 the port's logits differ"):
        check_equivalence(checkpoint, model)


@pytest.mark.parametrize(
    ("off_by", "computed", "said"),
    [
        ([1.8e-10, 0], 2, None),
        ([1.8e-10, 3e-10, 1.2e-10, 0], 4, None),
        ([3e-7] * 2, 2, "compute different things"),
        ([1.8e-10 * (1 + i) for i in range(6)], 6, "by 1.8e-10, 3.6e-10, .* nothing is known of the port"),
    ],
)
def test_what_a_second_computation_does_not_show_is_the_machines(
    checkpoint, model, monkeypatch, off_by, computed, said
):
    left = list(off_by)

    def compare(*asked):
        row = compare_outputs(*asked)
        row["logits"]["float64_relative_difference"] += left.pop(0) if left else 0
        return row

    monkeypatch.setattr("minimodel.equivalence.compare_outputs", compare)
    with pytest.raises(LabError, match=said) if said else nullcontext():
        assert check_equivalence(checkpoint, model)["contract"]["held"]
    assert len(off_by) - len(left) == computed


def test_a_nan_is_refused(checkpoint, model):
    model.softmax = lambda logits: torch.full_like(logits, torch.nan)
    with pytest.raises(LabError, match="probabilities differ from NumPy's by up to nan"):
        check_equivalence(checkpoint, model)


def test_values_that_cancelled_are_judged_by_their_layers_size():
    b = np.array([1e-6, 100.0], np.float32)
    a = b + np.array([2e-5, 0], np.float32)
    assert tolerance_used(a, b, atol=1e-5, rtol=1e-5) == pytest.approx(2, rel=1e-4)
    assert tolerance_used(a, b, atol=1e-5, rtol=1e-5, floor=rms(b)) < 0.03


def test_the_contract_is_the_one_that_was_asked_for(checkpoint, model):
    used = check_equivalence(checkpoint, model)["outputs"]["logits"]["elementwise_tolerance_used"]
    tighter = 1e-5 * used / 2  # half of what the logits need
    with pytest.raises(LabError, match=r"differs? from NumPy's"):
        check_equivalence(checkpoint, model, atol=tighter, rtol=tighter)


def test_a_port_of_other_sizes_is_refused(checkpoint):
    other = SQUARE.__class__(vocab_size=16, block_size=16, n_layer=2, n_head=4, n_embd=16)
    with pytest.raises(LabError, match="sizes are"):
        check_equivalence(checkpoint, GrammarMiniGPT(other))


def test_an_error_stays_in_its_own_layer_when_layers_are_compared_alone(checkpoint, model):
    name = "blocks.0.attention.proj.weight"
    overwrite(model, name, model.get_parameter(name).T)
    ids = np.random.default_rng(42).integers(0, SQUARE.vocab_size, (2, 16))
    rows = compare_layers(NumpyMiniGPT.from_checkpoint(checkpoint), model, ids)
    assert [row["layer"] for row in rows if not row["own"]["held"]] == ["blocks.0.attention.proj"]
    running = {row["layer"]: row["torch_numpy"]["max_abs_difference"] for row in rows}
    assert running["lm_head"] > 1e-3  # the running model carries it to the end


def test_an_ulp_is_the_spacing_at_the_reference_or_at_its_layers_rms():
    reference = np.array([1024.0, 0.0, -1.0])
    above = np.nextafter(reference.astype(np.float32), np.float32(np.inf))
    rms = np.sqrt(np.mean(reference**2)).astype(np.float32)
    only_large = np.array([above[0], 0, -1], np.float32)
    assert difference(only_large, reference, reference)["max_ulps"] == 1
    shifted = (reference + np.array([0, 3 * np.spacing(rms), 0])).astype(np.float32)
    assert difference(shifted, reference, reference)["max_ulps"] == pytest.approx(3)


def test_one_thread_is_used_and_the_setting_restored():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
