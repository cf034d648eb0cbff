"""`minikernel.generate`: NumPy's tokens, in one launch on a GPU with clusters, with torch elsewhere."""

import emulator
import numpy as np
import pytest
import torch
from emulated_gpu import EmulatedGpu

from minikernel import generate
from minikernel.model.generate import launch
from minikernel.model.generate.launch import check_takes, write
from minikernel.model.generate.packing import packed
from minikernel.proof.compile_cuda import compile_cuda, cuda_compiler
from minilab import LabError
from minimodel.checkpoint import Checkpoint
from minimodel.model_config import MiniGPTConfig
from minimodel.numpy_minigpt import NumpyMiniGPT
from minimodel.port import port
from minimodel.writing.generate import generate as plain
from minimodel.writing.sampling import Sampling

SIZES = MiniGPTConfig(vocab_size=600, block_size=128)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def models(sizes=SIZES, seed=1):
    """A model far from uniform in NumPy, and its port."""
    model = NumpyMiniGPT.initialise(sizes, seed=seed)
    model.parameters *= 4
    return model, port(Checkpoint(config=sizes, arrays=model.arrays, metadata={}))[0]


def test_without_a_gpu_torch_writes():
    model, ported = models(MiniGPTConfig(vocab_size=40, block_size=16, n_layer=1, n_head=2, n_embd=8))
    ids = np.arange(6).reshape(2, 3)
    assert generate(ported, ids, 9).tolist() == plain(model, ids, 9).tolist()
    with pytest.raises(LabError, match="runs on a GPU, and this one is on cpu"):
        generate(ported, ids, 9, fall_back=False)


def test_what_cannot_be_written_is_refused_before_anything_is_launched():
    with pytest.raises(LabError, match="200 new tokens after 3 do not fit"):
        generate(models()[1], [[1, 2, 3]], 200)


@pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
def test_changed_weights_and_other_prompts_are_written_with_and_packed_once(monkeypatch):
    gpu = EmulatedGpu(monkeypatch)
    model, ported = models(MiniGPTConfig(vocab_size=37, block_size=17, n_layer=1))
    packings = []
    monkeypatch.setattr(launch, "packed", lambda *given: packings.append(1) or packed(*given))
    for ids, new_tokens, sampling in [([[1, 2, 3]], 4, Sampling()), ([[5], [6]], 3, Sampling(0.7, 20, 9))] * 2:
        given = torch.tensor(ids)
        made = generate(ported, given, new_tokens, sampling, fall_back=False)
        assert made.tolist() == plain(model, ids, new_tokens, sampling).tolist()
        assert generate(ported, ids, new_tokens, sampling, fall_back=False).equal(made)
        assert generate(ported, given.int(), new_tokens, sampling, fall_back=False).equal(made)
    assert len(packings) == 1
    assert len(launch._packed[ported].launches) == 2
    assert gpu.launched == [("write_text<1, 37, 17>", grid) for grid in (8, 8, 8, 16, 16, 16) * 2]
    with torch.no_grad():
        ported.lm_head.bias[7] += 1000
    assert generate(ported, [[1, 2]], 4, fall_back=False).tolist() == [[7] * 4]
    assert len(packings) == 2
    assert generate(ported, [[1, 2]], 0).shape == (1, 0)


@pytest.mark.skipif(cuda_compiler() is None, reason="needs NVRTC or nvcc")
def test_it_compiles_for_a_hopper_and_spills_nothing():
    (kernel,) = compile_cuda("minikernel.model.generate.launch")["kernels"]
    assert kernel["stack_bytes"] == 0


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(
    ("sequences", "given", "wanted", "sampling"),
    [
        (1, 1, 1, Sampling()),
        (1, 1, 127, Sampling()),
        (5, 16, 112, Sampling()),
        (40, 15, 20, Sampling()),
        (8, 3, 60, Sampling(1.0, None, 2**63 + 5)),
        (8, 3, 60, Sampling(0.7, 20, 9)),
    ],
)
def test_one_launch_writes_numpys_tokens(sequences, given, wanted, sampling):
    model, ported = models()
    ids = np.random.default_rng(given).integers(0, 600, (sequences, given))
    made = generate(ported.cuda(), torch.as_tensor(ids), wanted, sampling, fall_back=False)
    assert made.cpu().numpy().tolist() == plain(model, ids, wanted, sampling).tolist()


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 37, 17), (2, 1100, 64), (4, 601, 127)])
def test_other_sizes(sizes):
    n_layer, vocab_size, block_size = sizes
    model, ported = models(MiniGPTConfig(vocab_size=vocab_size, block_size=block_size, n_layer=n_layer), seed=3)
    ported.cuda()
    for given in {1, block_size // 2 + 1, block_size - 1} & set(range(1, block_size)):
        ids = np.random.default_rng(given).integers(0, vocab_size, (3, given))
        wanted = block_size - given
        last = torch.zeros(3, vocab_size, device="cuda")
        made = write(ported, torch.as_tensor(ids).cuda(), wanted, Sampling(), last).cpu().numpy()
        assert made.tolist() == plain(model, ids, wanted).tolist()
        exact = model.astype(np.float64).forward(np.concatenate([ids, made], 1)[:, :-1])[:, -1]
        assert np.abs(last.cpu().numpy() - exact).max() < 2e-6 * np.abs(exact).max()


@pytest.mark.gpu
@needs_gpu
def test_changed_weights_are_packed_anew():
    ported = models()[1].cuda()
    before = generate(ported, [[1, 2]], 40, fall_back=False)
    with torch.no_grad():
        ported.lm_head.bias[7] += 1000
    assert generate(ported, [[1, 2]], 40, fall_back=False).tolist() == [[7] * 40] != before.tolist()


@pytest.mark.gpu
@needs_gpu
def test_it_runs_on_the_current_stream_and_in_a_graph():
    ported = models()[1].cuda()
    ids = torch.ones((2, 3), dtype=torch.int64, device="cuda")
    eager = write(ported, ids, 20, Sampling())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = write(ported, ids, 20, Sampling())
    made.zero_()
    graph.replay()
    assert made.tolist() == eager.tolist()
    with torch.cuda.stream(torch.cuda.Stream()):
        other = write(ported, ids, 20, Sampling())
        torch.cuda.current_stream().synchronize()
    assert other.tolist() == eager.tolist()


@pytest.mark.gpu
@needs_gpu
def test_a_half_precision_model_is_written_with_torch():
    ported = models()[1].cuda().half()
    assert generate(ported, [[1, 2]], 4).shape == (1, 4)
    with pytest.raises(LabError, match="computes in float32"):
        check_takes(ported)
