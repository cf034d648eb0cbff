"""The port computes what the NumPy model computes, and refuses what it cannot look up."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from minilab import LabError
from minimodel.numpy_minigpt import MiniGPTConfig, NumpyMiniGPT
from minimodel.port import torch_name
from minimodel.torch_minigpt import GrammarMiniGPT, last_axis_softmax, layer_names

CONFIG = MiniGPTConfig(vocab_size=600, block_size=32, n_layer=4, n_head=4, n_embd=64)


@pytest.fixture(scope="module")
def models():
    """A NumPy model whose every array, biases and LayerNorms too, is random, and its port."""
    numpy_model = NumpyMiniGPT.initialise(CONFIG, seed=1)
    generator = np.random.default_rng(2)
    for array in numpy_model.arrays.values():
        array += 0.1 * generator.standard_normal(array.shape, dtype=np.float32)
    model = GrammarMiniGPT(CONFIG)
    model.load_state_dict({torch_name(name): torch.from_numpy(a) for name, a in numpy_model.arrays.items()})
    return numpy_model, model.eval()


@pytest.fixture(scope="module")
def ids():
    return np.random.default_rng(42).integers(0, CONFIG.vocab_size, (2, 16))


@pytest.mark.parametrize("output", ["forward", "probabilities"])
def test_random_ids_give_what_the_numpy_model_gives(models, ids, output):
    numpy_model, model = models
    y_numpy = getattr(numpy_model, output)(ids)
    with torch.no_grad():
        y_torch = getattr(model, output)(torch.from_numpy(ids))
    assert y_torch.dtype == torch.float32
    assert y_torch.shape == (2, 16, CONFIG.vocab_size)
    assert np.allclose(y_numpy, y_torch.numpy(), atol=1e-5, rtol=1e-5)


def test_probabilities_are_relatively_close_to_a_float64_softmax(models, ids):
    _, model = models
    with torch.no_grad():
        exact = F.softmax(model(torch.from_numpy(ids)).double(), dim=-1)
        probabilities = model.probabilities(torch.from_numpy(ids)).double()
    assert ((probabilities - exact).abs() / exact).max() < 1e-6


def test_trace_has_the_names_order_and_values_of_the_numpy_trace(models, ids):
    numpy_model, model = models
    numpy_trace = {}
    numpy_model.forward(ids, trace=numpy_trace)
    trace = model.trace(torch.from_numpy(ids))
    assert list(trace) == list(numpy_trace) == layer_names(CONFIG)
    for name, output in trace.items():
        assert np.allclose(output.numpy(), numpy_trace[name], atol=1e-5, rtol=1e-5), name


def test_trace_leaves_no_hook_behind(models, ids):
    _, model = models
    model.trace(torch.from_numpy(ids))
    assert not any(module._forward_hooks for module in model.modules())


def test_a_fed_trace_starts_each_layer_from_the_given_values(models, ids):
    _, model = models
    own = model.trace(torch.from_numpy(ids))
    fed = model.trace(torch.from_numpy(ids), feed={name: output + 1 for name, output in own.items()})
    assert torch.equal(fed["embedding"], own["embedding"])  # nothing comes before the first layer
    weight = model.blocks[0].attention.qkv
    expected = weight(own["blocks.0.ln_1"] + 1)
    assert torch.allclose(fed["blocks.0.attention.qkv"], expected, rtol=1e-5, atol=1e-5)


def test_a_position_does_not_see_what_follows_it(models, ids):
    _, model = models
    changed = torch.from_numpy(ids).clone()
    changed[:, 8:] = (changed[:, 8:] + 1) % CONFIG.vocab_size
    with torch.no_grad():
        before, after = model(torch.from_numpy(ids)), model(changed)
    assert torch.equal(before[:, :8], after[:, :8])
    assert not torch.equal(before[:, 8:], after[:, 8:])


def test_the_softmax_can_be_swapped(models, ids):
    _, model = models
    seen = []

    def kernel(logits):
        seen.append(logits.shape)
        return torch.zeros_like(logits)

    model.softmax = kernel
    try:
        probabilities = model.probabilities(torch.from_numpy(ids))
    finally:
        model.softmax = last_axis_softmax
    assert seen == [(2, 16, CONFIG.vocab_size)]
    assert not probabilities.any()


@pytest.mark.parametrize(
    ("bad_ids", "sentence"),
    [
        ([[0, 600]], "ids from 0 to 600, and its vocabulary has 0 to 599"),
        ([[-1, 5]], "ids from -1 to 5, and its vocabulary has 0 to 599"),
        ([[0] * 33], "33 ids, and its positions end at block_size = 32"),
        ([0, 1], "1 axes"),
    ],
)
def test_ids_that_cannot_be_looked_up_are_refused(models, bad_ids, sentence):
    _, model = models
    with pytest.raises(LabError, match=sentence):
        model(torch.tensor(bad_ids))


def test_dynamo_takes_the_whole_forward_in_one_graph(models, ids):
    _, model = models
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        for length in (16, 12, 9):  # the second length makes the shape symbolic
            part = torch.from_numpy(ids[:, :length])
            assert torch.allclose(compiled(part), model(part), rtol=1e-6)


def test_export_captures_the_whole_forward(models, ids):
    _, model = models
    exported = torch.export.export(model, (torch.from_numpy(ids),)).module()
    with torch.no_grad():
        assert torch.allclose(exported(torch.from_numpy(ids)), model(torch.from_numpy(ids)), rtol=1e-6)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda_the_final_softmax_can_be_the_lab_s_kernel(models, ids):
    from minikernel import kernels

    numpy_model, model = models
    on_cuda = torch.from_numpy(ids).cuda()
    model.softmax = kernels["triton"]
    try:
        with torch.no_grad():
            logits = model.cuda()(on_cuda)
            probabilities = model.probabilities(on_cuda)
    finally:
        model.softmax = last_axis_softmax
        model.cpu()
    assert torch.equal(probabilities, kernels["triton"](logits))
    ours = numpy_model.probabilities(ids)
    assert (np.abs(probabilities.cpu().numpy() - ours) / ours).max() < 1e-3
