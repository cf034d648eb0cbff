"""The forward pass in a cluster is the model: on the emulator in several orders of its threads, and on a GPU."""

import copy
from itertools import product

import emulator
import numpy as np
import pytest
import torch
from whole_model import exactly, widened

from minikernel.model import forward
from minikernel.model.cluster import forward as forward_cluster
from minikernel.model.cluster.forward import EVENTS, MOST_WORDS, THREADS, expression
from minikernel.model.cluster.packing import BLOCKS, packed, shared_bytes, stream_scale
from minikernel.model.fragments import to_bfloat16
from minikernel.model.nvrtc import source
from minikernel.model.weights import weights_of
from minikernel.proof.compile_cuda import compile_cuda, cuda_compiler
from minimodel.checkpoint import Checkpoint
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.port import port

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
needs_emulator = pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def model_of(n_layer, vocab_size, block_size=128, dtype="float32"):
    """A NumPy model whose biases and norms are not those of the start; its weights are of `dtype`.

    They are twice those of the start: with more, float32 itself leaves the port's tolerance.
    """
    sizes = MiniGPTConfig(vocab_size=vocab_size, block_size=block_size, n_layer=n_layer)
    model = NumpyMiniGPT.initialise(sizes, seed=1)
    model.parameters *= 2
    random = np.random.default_rng(5)
    for array in model.arrays.values():
        if array.ndim == 1:
            array += 0.1 * random.standard_normal(array.shape).astype(np.float32)
    if dtype == "bfloat16":
        model.parameters[:] = widened(to_bfloat16(model.parameters))
    return model


def tolerance(dtype, probabilities):
    """The port's, or what 8 significant bits come to; an error of logits is a relative one of probabilities."""
    most = {"float32": 1e-5, "bfloat16": 5e-2}[dtype]
    return {"rtol": most, "atol": 0 if probabilities else most}


def emulated(model, ids, dtype, probabilities, seed=0, timed=False):
    """The kernel's output, run on the CPU, and the timeline, if it is wanted."""
    config = model.config
    made = packed(config, model.arrays, dtype)
    out = np.full((*ids.shape, config.vocab_size), 7, np.float32 if dtype == "float32" else np.uint16)
    stamps = np.zeros((BLOCKS * len(ids), EVENTS, 2), np.int64) if timed else None
    name = expression(DTYPES[dtype], config.n_layer, config.vocab_size, probabilities, timed)
    emulator.Kernel(source(forward_cluster.SOURCE), name).launch(
        BLOCKS * len(ids),
        THREADS,
        [*made, ids, out, np.int32(ids.shape[1]), stamps, np.int32(EVENTS)],
        shared_bytes=shared_bytes(config, dtype),
        cluster=BLOCKS,
        seed=seed,
    )
    return (widened(out) if dtype == "bfloat16" else out), stamps


def cases():
    """Layers, words, sequences, time, dtype, probabilities, seed: the first are tried always."""
    first = [
        (4, 600, 1, 16, "float32", True, 1),
        (4, 600, 1, 16, "bfloat16", False, 0),
        (1, 37, 3, 5, "float32", False, 0),
        (1, 601, 1, 1, "float32", True, 1),
        (1, 37, 1, 16, "bfloat16", True, 0),  # most warps have no words
    ]
    # Clusters know nothing of each other, and a wrong order of threads is wrong at each size: both alternate, so that
    # every three values of a case meet.
    sizes = product((1, 4), (600, 37, 601), (1, 5, 16), DTYPES, (False, True))
    every = [(*size[:2], 1 + number // 5 % 2 * 2, *size[2:], number // 7 % 2) for number, size in enumerate(sizes)]
    rest = [*(case for case in every if case not in first), (12, 600, 1, 16, "float32", True, 1)]
    rest += [(1, MOST_WORDS, 1, 16, "float32", True, 0), (1, MOST_WORDS, 1, 9, "bfloat16", True, 0)]
    return [*first, *(pytest.param(*case, marks=pytest.mark.spared) for case in rest)]


@needs_emulator
@pytest.mark.parametrize(("layers", "words", "sequences", "time", "dtype", "probabilities", "seed"), cases())
def test_it_is_the_model(layers, words, sequences, time, dtype, probabilities, seed):
    model = model_of(layers, words, dtype=dtype)
    ids = np.random.default_rng(time).integers(0, words, (sequences, time))
    made, _ = emulated(model, ids, dtype, probabilities, seed)
    wanted = exactly(model, ids, probabilities)
    np.testing.assert_allclose(made, wanted, **tolerance(dtype, probabilities))


@needs_emulator
def test_from_an_id_outside_the_vocabulary_on_nothing_is_a_number_and_before_it_all_is():
    model = model_of(1, 37)
    ids = np.random.default_rng(0).integers(0, 37, (4, 16))
    wanted = exactly(model, ids, True)
    ids[0, 2], ids[2, 0], ids[3, 13] = 37, -1, 2**40
    wanted[0, 2:], wanted[2], wanted[3, 13:] = np.nan, np.nan, np.nan
    made, _ = emulated(model, ids, "float32", True)
    np.testing.assert_allclose(made, wanted, **tolerance("float32", True))


@needs_emulator
def test_the_timeline_is_in_order():
    model = model_of(1, 37)
    _, stamps = emulated(model, np.zeros((2, 3), np.int64), "float32", True, timed=True)
    for block in stamps:
        spans = block[2:][block[2:, 1] != 0]
        assert 0 < len(spans) < EVENTS - 2
        assert set(spans[:, 0]) == {1, 2, 3}
        assert (np.diff(block[1 : 2 + len(spans), 1]) >= 0).all()


def test_a_stream_that_could_leave_float16_or_is_not_finite_is_told():
    model = model_of(1, 37)
    assert stream_scale(model.config, model.arrays) >= 1
    for number in (1e6, np.inf, np.nan):
        model.arrays["blocks.0.mlp.proj.bias"][3] = number
        assert stream_scale(model.config, model.arrays) == 0


def test_shared_memory_has_room_for_the_model_or_there_is_none():
    def room(layers, words, dtype):
        return shared_bytes(MiniGPTConfig(vocab_size=words, block_size=16, n_layer=layers), dtype)

    assert 0 < room(1, 1, "bfloat16") < room(4, 600, "bfloat16") <= room(4, 600, "float32") <= 232448
    assert room(40, 600, "float32") > 0
    assert room(400, 600, "float32") == 0


@pytest.mark.skipif(cuda_compiler() is None, reason="needs NVRTC or nvcc")
def test_it_compiles_for_a_hopper_and_spills_nothing():
    kernels = compile_cuda("minikernel.model.cluster.forward")["kernels"]
    assert len(kernels) == 8
    assert [kernel["stack_bytes"] for kernel in kernels] == [0] * 8


def on_gpu(model, dtype="float32"):
    return port(Checkpoint(config=model.config, arrays=model.arrays, metadata={}))[0].cuda().to(DTYPES[dtype])


def launched(ported, ids, probabilities=False):
    """What the kernel itself writes, whatever kernel `minigpt_forward` would choose."""
    weights = weights_of(ported)
    assert forward_cluster.takes(weights, ids.shape[1])
    out = torch.full((*ids.shape, ported.config.vocab_size), 7, dtype=weights.dtype, device="cuda")
    forward_cluster.launch(weights, len(ids), ids.shape[1], probabilities)(ids, out)
    return out


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("layers", "words"), [(4, 600), (1, 37), (2, 601), (3, MOST_WORDS)])
def test_on_a_gpu_it_is_the_model(layers, words, dtype):
    ported = on_gpu(model_of(layers, words), dtype)
    exact = copy.deepcopy(ported).double()
    random = np.random.default_rng(words)
    for _ in range(125):
        ids = torch.as_tensor(random.integers(0, words, (random.integers(1, 41), random.integers(1, 17)))).cuda()
        with torch.no_grad():
            logits = exact(ids)
        for probabilities in (False, True):
            wanted = torch.softmax(logits, -1) if probabilities else logits
            made = launched(ported, ids, probabilities).double()
            torch.testing.assert_close(made, wanted, **tolerance(dtype, probabilities))


@pytest.mark.gpu
@needs_gpu
def test_few_short_sequences_go_to_the_cluster_and_changed_weights_count(monkeypatch):
    ported = on_gpu(model_of(4, 600))
    calls = []
    launch = forward_cluster.launch
    monkeypatch.setattr(forward_cluster, "launch", lambda *given: calls.append(given[1:3]) or launch(*given))
    few, many = torch.zeros((2, 16), dtype=torch.int64).cuda(), torch.zeros((31, 16), dtype=torch.int64).cuda()
    before = forward.minigpt_forward(ported, few, fall_back=False)
    forward.minigpt_forward(ported, many, fall_back=False)
    forward.minigpt_forward(ported, torch.zeros((1, 17), dtype=torch.int64).cuda(), fall_back=False)
    assert calls == [(2, 16)]
    with torch.no_grad():
        ported.lm_head.bias[7] += 1000
    after = forward.minigpt_forward(ported, few, fall_back=False)
    torch.testing.assert_close(after[..., 7], before[..., 7] + 1000)


@pytest.mark.gpu
@needs_gpu
def test_it_runs_on_the_current_stream_and_in_a_graph():
    ported = on_gpu(model_of(4, 600))
    ids = torch.randint(0, 600, (3, 16), device="cuda")
    eager = launched(ported, ids)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = launched(ported, ids)
    made.zero_()
    graph.replay()
    assert torch.equal(made, eager)
    with torch.cuda.stream(torch.cuda.Stream()):
        other = launched(ported, ids)
        torch.cuda.current_stream().synchronize()
    assert torch.equal(other, eager)
