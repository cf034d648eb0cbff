"""`minigpt_forward(rung="graph")`: which graphs are kept, and that results are the caller's own."""

import gc
import weakref
from typing import ClassVar

import pytest
import torch

from minikernel.model import forward
from minikernel.model.forward import minigpt_forward
from minikernel.model.graph import kept
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CONFIG = MiniGPTConfig(vocab_size=600, block_size=128, n_layer=2)


class Fake:
    """Stands for a capture: its output is the first weight plus the ids, and it writes it over the last one."""

    made: ClassVar[list] = []  # of what captures were made

    def __init__(self, model, shape, *, probabilities):
        self.output = torch.zeros(shape)
        Fake.made.append((shape, probabilities))

    def run(self, model, ids):
        return self.output.copy_(ids + model.lm_head.bias[0].detach())


@pytest.fixture
def model(monkeypatch):
    Fake.made.clear()
    monkeypatch.setattr(kept, "Captured", Fake)
    monkeypatch.setattr(kept, "current_stream", lambda _: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    made = GrammarMiniGPT(CONFIG)
    torch.nn.init.ones_(made.lm_head.bias)
    return made


def ids_of(*shape):
    return torch.arange(shape[0] * shape[1]).reshape(shape)


def test_a_later_call_changes_no_earlier_result_and_captures_nothing(model):
    first = kept.forward(model, ids_of(2, 3), True)
    before = first.clone()
    second = kept.forward(model, ids_of(2, 3) + 5, True)
    assert (first == before).all()
    assert (second == before + 5).all()
    assert Fake.made == [((2, 3), True)]


def test_changed_weights_are_taken(model):
    before = kept.forward(model, ids_of(2, 3), True)
    with torch.no_grad():
        model.lm_head.bias += 1
    assert (kept.forward(model, ids_of(2, 3), True) == before + 1).all()
    assert len(Fake.made) == 1


def test_shapes_softmax_and_streams_have_graphs_of_their_own(model, monkeypatch):
    for shape, probabilities in (((2, 3), True), ((2, 3), False), ((3, 2), True)):
        kept.forward(model, ids_of(*shape), probabilities)
    monkeypatch.setattr(kept, "current_stream", lambda _: 1)
    kept.forward(model, ids_of(2, 3), True)
    assert Fake.made == [((2, 3), True), ((2, 3), False), ((3, 2), True), ((2, 3), True)]


def test_the_graph_that_was_not_used_for_longest_goes_first(model):
    for length in range(1, kept.MOST_GRAPHS + 1):
        kept.forward(model, ids_of(1, length), True)
    kept.forward(model, ids_of(1, 1), True)
    kept.forward(model, ids_of(1, 100), True)
    assert len(kept._kept[model]) == kept.MOST_GRAPHS
    captures = len(Fake.made)
    kept.forward(model, ids_of(1, 1), True)
    assert len(Fake.made) == captures
    kept.forward(model, ids_of(1, 2), True)
    assert len(Fake.made) == captures + 1


@pytest.mark.usefixtures("model")
def test_graphs_go_with_their_model():
    other = GrammarMiniGPT(CONFIG)
    kept.forward(other, ids_of(2, 3), True)
    seen, capture = weakref.ref(other), weakref.ref(next(iter(kept._kept[other].values())))
    del other
    gc.collect()
    assert seen() is None
    assert capture() is None


def test_a_capture_of_the_callers_is_refused(model, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(LabError, match="cannot be part of another; call it outside of the capture, or take the rung"):
        kept.forward(model, ids_of(2, 3), True)


def test_the_rung_is_known_and_falls_back_or_refuses_without_a_gpu():
    model, ids = GrammarMiniGPT(CONFIG).eval(), ids_of(2, 3)
    with pytest.raises(LabError, match=r"no rung 'graphs'; take one of one, .*graph"):
        minigpt_forward(model, ids, rung="graphs")
    with torch.no_grad():
        assert (minigpt_forward(model, ids, rung="graph", probabilities=True) == model.probabilities(ids)).all()
    with pytest.raises(LabError, match="runs on a GPU, and this model is on cpu"):
        minigpt_forward(model, ids, rung="graph", fall_back=False)


def test_the_rung_gets_the_graphs_result(model, monkeypatch):
    monkeypatch.setattr(forward, "weights_of", lambda _: None)
    monkeypatch.setattr(forward, "check_ids", lambda *_: None)
    made = minigpt_forward(model, ids_of(2, 3), rung="graph", probabilities=False, fall_back=False)
    assert (made == ids_of(2, 3) + model.lm_head.bias[0]).all()
    assert Fake.made == [((2, 3), False)]


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_the_rung_is_the_model_on_a_gpu(dtype):
    model = GrammarMiniGPT(CONFIG).cuda().to(dtype).eval()
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    results = []
    for shape in [(1, 16), (3, 77), (1, 16), (2, 5), (64, 64), (9, 128), (1, 16)]:
        ids = torch.randint(0, 600, shape, device="cuda")
        for probabilities in (True, False):
            made = minigpt_forward(model, ids, rung="graph", probabilities=probabilities, fall_back=False)
            results.append((made, model.probabilities(ids) if probabilities else model(ids)))
    model.lm_head.bias[7] += 1
    results.append((minigpt_forward(model, ids, rung="graph", fall_back=False), model(ids)))
    for made, expected in results:
        torch.testing.assert_close(made, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@needs_gpu
@torch.no_grad()
def test_streams_do_not_share_buffers():
    model, streams = GrammarMiniGPT(CONFIG).cuda().eval(), [torch.cuda.Stream() for _ in range(3)]
    batches = [torch.randint(0, 600, (8, 64), device="cuda") for _ in streams]
    expected = [model(ids) for ids in batches]
    torch.cuda.synchronize()
    for _ in range(20):
        made = []
        for stream, ids in zip(streams, batches, strict=True):
            with torch.cuda.stream(stream):
                made.append(minigpt_forward(model, ids, rung="graph", fall_back=False))
        torch.cuda.synchronize()
        for one, other in zip(made, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
