"""What kernels read of a model's parameters: whose changes are counted, and what is kept."""

import gc
import weakref

import pytest
import torch

from minikernel.model import parameters
from minikernel.model.parameters import Snapshot, Taken
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

SIZES = MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)


def test_parameters_whose_changes_torch_does_not_count_are_refused():
    with torch.inference_mode():
        model = GrammarMiniGPT(SIZES)
    with pytest.raises(
        LabError, match=r"made in torch\.inference_mode, which does not count .*; make or load the model"
    ):
        Snapshot(model)


def test_what_a_compiled_function_writes_is_counted():
    model = GrammarMiniGPT(SIZES)
    snapshot = Snapshot(model)
    torch.compile(lambda weight: weight.mul_(2), backend="aot_eager")(model.lm_head.bias.detach())
    assert not snapshot.current()


def test_a_buffer_or_a_mode_is_no_parameter():
    model = GrammarMiniGPT(SIZES)
    snapshot = Snapshot(model)
    model.blocks[0].attention.future[0, 1] = False
    model.eval().requires_grad_(False)
    model.softmax = torch.nn.Identity()
    assert snapshot.current()


def test_launches_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr(parameters, "MOST_LAUNCHES", 3)
    taken, made = Taken(GrammarMiniGPT(SIZES)), []
    for key in (0, 1, 2, 1, 3, 3, 0):
        assert taken.launch(key, lambda key=key: made.append(key) or f"launch {key}") == f"launch {key}"
    assert made == [0, 1, 2, 3, 0]


def test_what_was_taken_goes_with_its_model_and_what_graphs_read_only_then(monkeypatch):
    model, kept, seen = GrammarMiniGPT(SIZES), weakref.WeakKeyDictionary(), []
    for capturing in (False, True, False):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda capturing=capturing: capturing)
        taken = Taken.of(model, kept)
        assert Taken.of(model, kept) is taken
        taken.launched()
        seen.append(weakref.ref(taken))
        del taken
        with torch.no_grad():
            model.lm_head.bias += 1
    assert Taken.of(model, kept).replaced == [seen[1]()]
    gc.collect()
    assert [each() is None for each in seen] == [True, False, True]
    del model
    gc.collect()
    assert len(kept) == 0
    assert seen[1]() is None
