"""`minikernel.minigpt_forward`: the model's output everywhere, in one launch where a GPU allows it."""

import pytest
import torch

from minikernel import minigpt_forward
from minikernel.model import forward
from minikernel.model.weights import weights_of
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

SIZES = MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)


@pytest.fixture
def model():
    torch.manual_seed(1)
    return GrammarMiniGPT(SIZES).eval()


@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.parametrize("shape", [(2, 5), (1, 16)])
def test_without_a_gpu_it_is_the_model(model, shape, probabilities):
    ids = torch.arange(shape[0] * shape[1]).reshape(shape)
    with torch.no_grad():
        expected = model.probabilities(ids) if probabilities else model(ids)
        assert minigpt_forward(model, ids, probabilities=probabilities).equal(expected)


def test_what_the_kernels_do_not_take_is_the_models_too():
    model = GrammarMiniGPT(MiniGPTConfig(vocab_size=40, block_size=16, n_layer=1, n_head=2, n_embd=8))
    ids = torch.arange(6).reshape(2, 3)
    assert minigpt_forward(model, ids).equal(model(ids))


def test_without_falling_back_it_says_why_not(model):
    with pytest.raises(LabError, match="runs on a GPU, and this model is on cpu"):
        minigpt_forward(model, torch.zeros((1, 4), dtype=torch.int64), fall_back=False)


@pytest.mark.parametrize("fall_back", [True, False])
def test_an_unknown_rung_is_refused_in_one_sentence(model, fall_back):
    with pytest.raises(LabError, match=r"^minigpt_forward has no rung 'two'; take one of one"):
        minigpt_forward(model, torch.zeros((1, 4), dtype=torch.int64), rung="two", fall_back=fall_back)


def test_a_rung_gets_contiguous_ids_and_room_for_its_output(monkeypatch, model):
    monkeypatch.setattr("minikernel.model.weights._check_place", lambda dtype, device: None)
    calls = []

    def rung(weights, ids, out, probabilities):
        calls.append((weights.config, ids.is_contiguous(), ids.tolist(), probabilities))
        out.fill_(3)

    monkeypatch.setitem(forward.RUNGS, "one", rung)
    ids = torch.arange(6).reshape(3, 2).T
    made = minigpt_forward(model, ids, probabilities=True, fall_back=False)
    assert calls == [(SIZES, True, ids.tolist(), True)]
    assert made.shape == (2, 3, 37)
    assert (made == 3).all()
    assert minigpt_forward(model, ids[:0], fall_back=False).shape == (0, 3, 37)
    assert len(calls) == 1  # there is nothing to launch for


@pytest.mark.parametrize(("sequences", "kernel"), [(2, "forward_cluster"), (31, "forward_block")])
def test_the_timeline_is_of_the_kernel_that_is_launched(monkeypatch, model, sequences, kernel):
    monkeypatch.setattr("minikernel.model.weights._check_place", lambda dtype, device: None)
    for name in ("forward_cluster", "forward_block"):
        monkeypatch.setattr(getattr(forward, name), "timeline", lambda given, ids, name=name: (name, given, ids))
    name, given, ids = forward.timeline(model, torch.zeros((sequences, 3), dtype=torch.int64))
    assert name == kernel
    assert given is (model if kernel == "forward_block" else weights_of(model))
    assert ids.shape == (sequences, 3)
    with pytest.raises(LabError, match="end at block_size = 16"):
        forward.timeline(model, torch.zeros((1, 17), dtype=torch.int64))
