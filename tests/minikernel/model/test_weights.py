"""A model's weights for the kernels: what is refused, and when they are taken anew."""

import copy

import numpy as np
import pytest
import torch

from minikernel.model import weights
from minikernel.model.weights import Weights, check_ids, weights_of
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

SIZES = MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)


@pytest.fixture
def anywhere(monkeypatch):
    """Takes a CPU for a GPU that has what the kernels need."""
    monkeypatch.setattr(weights, "_check_place", lambda dtype, device: None)


@pytest.fixture
def model():
    torch.manual_seed(1)
    return GrammarMiniGPT(SIZES)


def test_a_model_on_the_cpu_is_refused(model):
    with pytest.raises(LabError, match=r"runs on a GPU, and this model is on cpu; move it with \.to\."):
        weights_of(model)


def test_other_types_and_older_gpus_are_refused(monkeypatch):
    gpu = torch.device("cuda", 0)
    with pytest.raises(LabError, match=r"in float32 or bfloat16, and this model is torch\.float16"):
        weights._check_place(torch.float16, gpu)

    class Older:
        blocks = 1

    monkeypatch.setattr(weights.softmax_cuda, "limits_of", lambda device: Older)
    with pytest.raises(LabError, match=r"needs compute capability 9\.0 or later, and this GPU is older; call"):
        weights._check_place(torch.float32, gpu)


def test_a_model_that_does_not_fit_is_refused(anywhere):
    with pytest.raises(LabError, match="at most 128 positions, and this model 129"):
        Weights(GrammarMiniGPT(MiniGPTConfig(vocab_size=37, block_size=129, n_layer=1)))


def test_parameters_of_several_types_are_refused(anywhere, model):
    model.token_embedding.bfloat16()
    with pytest.raises(LabError, match="parameters of one dtype on one device; move them there"):
        Weights(model)


def test_the_range_is_that_of_float16_for_float32_only(anywhere, model):
    with torch.no_grad():
        model.blocks[0].mlp.fc.bias[0] = 70000
    with pytest.raises(LabError, match=r"those of blocks\.0\.mlp\.fc could reach .*, above 60,000"):
        Weights(model)
    Weights(model.bfloat16())


def test_arrays_are_the_parameters_under_the_models_names(anywhere, model):
    made = Weights(model)
    assert {name: array.shape for name, array in made.arrays.items()} == dict(SIZES.shapes)
    assert (made.arrays["lm_head.weight"] == model.lm_head.weight.detach().numpy()).all()
    assert made.tokens.equal(model.token_embedding.weight)
    assert made.places.equal(model.position_embedding.weight)
    rounded = Weights(copy.deepcopy(model).bfloat16())
    assert rounded.arrays["lm_head.weight"].dtype == np.float32
    assert rounded.tokens.dtype == torch.bfloat16


def test_weights_are_packed_once_and_taken_anew_when_one_has_changed(anywhere, model):
    first, packed = weights_of(model), []
    assert weights_of(model) is first
    for _ in range(2):
        first.once("key", lambda: packed.append(1) or "made")
    assert packed == [1]
    with torch.no_grad():
        model.lm_head.bias[3] += 1
    second = weights_of(model)
    assert second is not first
    assert second.arrays["lm_head.bias"][3] == model.lm_head.bias[3]
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    third = weights_of(model)
    assert third is not second
    model.lm_head.weight.data = model.lm_head.weight.data.clone()  # behind the version counter's back
    assert weights_of(model) is not third


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (torch.zeros(3, dtype=torch.int64), r"takes ids \(batch, sequence\), int64, on cpu, and got \(3,\)"),
        (torch.zeros((1, 3), dtype=torch.int32), r"got \(1, 3\), torch\.int32, on cpu"),
        (torch.zeros((1, 3), dtype=torch.int64, device="meta"), "on meta"),
        (torch.zeros((1, 17), dtype=torch.int64), "17 ids, .* end at block_size = 16; give it the last 16 ids"),
    ],
)
def test_ids_that_the_kernels_do_not_take_are_refused(anywhere, model, ids, sentence):
    with pytest.raises(LabError, match=sentence):
        check_ids(Weights(model), ids)
