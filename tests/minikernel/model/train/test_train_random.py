"""Random models and schedules: what does not fit is refused before anything is launched, and what fits has PyTorch's
gradients, in one launch and as a graph. `pytest --every-case` tries 200 of them on a GPU.
"""

import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from trained_in_one import flat, model_of, on_torch, ordered, text

from minikernel.model.train import launch
from minikernel.model.train.tables import AdamW
from minikernel.ops import softmax_cuda
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
MOST_SHARED, MULTIPROCESSORS = 232448, 132  # of an H100
FEW, MANY = 8, 200
NO_CLIP = AdamW(clip=1e9)
SMALL = {"layers": 2, "words": 60, "tiles": 3, "batch": 4}
LARGE = {"layers": 4, "words": 704, "tiles": 8, "batch": 80}


def drawn(seed, layers, words, tiles, batch):
    """(layers, words, positions, batch, time) of a configuration that fits."""
    random = np.random.default_rng(seed)
    time = 16 * int(random.integers(1, tiles + 1))
    positions = min(128, time + int(random.integers(0, 33)))
    made = random.integers(1, layers + 1), random.integers(2, words + 1), positions, random.integers(1, batch + 1), time
    return tuple(map(int, made))


def any_at_all(seed):
    """A model's sizes and a schedule; in half of them something does not fit, and often more than one thing."""
    random = np.random.default_rng(seed)
    width, heads = [*[(64, 4)] * 9, (32, 4), (64, 2), (128, 8)][random.integers(12)]
    words, positions = int(random.integers(2, 1100)), [16, 48, *[128] * 6, 160][random.integers(9)]
    config = MiniGPTConfig(words, positions, n_layer=int(random.integers(1, 6)), n_head=heads, n_embd=width)
    times = [8, 16, 16, 32, 48, positions // 16 * 16, 176]
    return config, [
        ([0, *range(1, 12)][random.integers(12)], int(random.integers(1, 5)), times[random.integers(7)])
        for _ in range(random.integers(1, 3))
    ]


@pytest.fixture
def asked(gpu, monkeypatch):
    """Shared memory and grid of each launch that a GPU of 132 multiprocessors is asked for; nothing runs."""
    seen = []

    def cooperative(function, grid, y, z, threads, v, w, shared_bytes, stream, addresses):
        seen.append((grid, shared_bytes))
        return 0

    gpu.cuLaunchCooperativeKernel = cooperative
    monkeypatch.setattr(launch.nvrtc, "compiled", lambda *_: SimpleNamespace(ptr=1))
    monkeypatch.setattr(softmax_cuda, "multiprocessors", lambda device: MULTIPROCESSORS)
    return seen


def test_what_does_not_fit_is_refused_and_what_fits_is_launched_within_the_gpus_memory(asked):
    stream, refused, launched = text(2, sentences=60), [], 0
    for seed in range(200):
        config, schedule = any_at_all(seed)
        wrong = (
            (config.n_embd, config.n_head) != (64, 4)
            or config.block_size > 128
            or any(time % 16 or time > config.block_size or not steps for steps, _, time in schedule)
        )
        model = GrammarMiniGPT(config)
        try:
            launch.train(model, stream, schedule)
        except LabError as refusal:
            refused.append((wrong, str(refusal)))
            assert len(asked) == launched
        else:
            launched += 1
            assert not wrong
            ((grid, shared_bytes),) = asked[launched - 1 :]
            assert grid == MULTIPROCESSORS
            assert shared_bytes <= MOST_SHARED
            # the logits of 16 tokens are there whatever else is
            assert shared_bytes > 4 * 16 * config.vocab_size
    assert launched >= 20
    # too many words or layers for a block's memory: the one thing that the sizes do not say at once
    too_large = [said for wrong, said in refused if not wrong]
    assert len(too_large) >= 10
    assert all("bytes of shared memory where this GPU has 232,448" in said for said in too_large)
    for reason in ("n_embd 64 and n_head 4", "at most 128 positions", "a multiple of 16", "must be at least 1"):
        assert any(reason in said for _, said in refused), reason


def gradients_of(monkeypatch, model, stream, shape, launches):
    """Loss and gradients of one step of the lab's."""
    made = []

    class Kept(launch.WAYS[launches]):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    with monkeypatch.context() as patch:
        patch.setitem(launch.WAYS, launches, Kept)
        trained = launch.train(model, stream, [(1, *shape)], optimizer=NO_CLIP, seed=3, launches=launches)
    return trained.losses[0], made[0].gradients


def compare_gradients(monkeypatch, device, seed, most):
    """The largest error of a gradient, of its parameter's largest, against PyTorch's in float64; of both ways."""
    layers, words, positions, batch, time = drawn(seed, **most)
    stream, start = text(words, sentences=400, seed=seed), model_of(layers, words, positions, spread=0.05)
    losses, found = zip(
        *(
            gradients_of(monkeypatch, on_torch(start).to(device), stream, (batch, time), way)
            for way in (launch.ONE, launch.GRAPH)
        ),
        strict=True,
    )
    rows = stream.rows(stream.random_places(np.random.default_rng(3), batch, time))
    ids, targets = (torch.from_numpy(each).to(device) for each in rows)
    exact = on_torch(start).double().to(device)
    loss = F.cross_entropy(exact(ids).flatten(0, 1), targets.flatten())
    loss.backward()
    case = f"configuration {seed}: {layers} layers, {words} words, {batch} x {time}"
    assert losses[0] == losses[1] == pytest.approx(loss.item(), rel=2e-6), case
    assert torch.equal(*found), case
    at, worst = 0, 0.0
    for parameter in ordered(exact):
        mine = found[0][at : at + parameter.numel()].view_as(parameter)
        at += parameter.numel()
        apart = ((mine - parameter.grad).abs().max() / parameter.grad.abs().max()).item()
        worst = max(worst, apart)
        assert apart < 1e-5, case
    return worst


def test_gradients_of_small_ones_are_pytorchs_on_the_emulator(gpu, monkeypatch):
    for seed in range(5, 5 + FEW // 2):
        # as few blocks as the longest sequence has tiles, then more, which sum gradients meanwhile
        monkeypatch.setattr(softmax_cuda, "multiprocessors", lambda device, blocks=3 * (seed - 4): blocks)
        assert 0 < compare_gradients(monkeypatch, "cpu", seed, SMALL) < 4e-6


@pytest.mark.gpu
@needs_gpu
def test_gradients_are_pytorchs(monkeypatch, pytestconfig):
    seeds = range(MANY if pytestconfig.getoption("--every-case", default=False) else FEW)
    worst = max(compare_gradients(monkeypatch, "cuda", seed, LARGE) for seed in seeds)
    print(f"largest error of a gradient in {len(seeds)} models, of its parameter's largest: {worst:.2g}")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("launches", [launch.ONE, launch.GRAPH])
def test_on_another_stream_and_on_every_device_it_has_the_same_bits(launches):
    start, stream, made = model_of(2, 300, 128, spread=0.05), text(300, sentences=400), []
    for number in range(torch.cuda.device_count()):
        for on in (torch.cuda.default_stream(number), torch.cuda.Stream(number)):
            model = on_torch(start).to(f"cuda:{number}")
            torch.cuda.synchronize(number)
            with torch.cuda.stream(on):
                launch.train(model, stream, [(30, 4, 32)], launches=launches)
            made.append(flat(model))
    assert not np.array_equal(made[0], start.parameters)
    for other in made[1:]:
        assert np.array_equal(made[0], other)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("launches", [launch.ONE, launch.GRAPH])
def test_a_process_that_is_killed_in_the_middle_leaves_the_device_usable(launches):
    def bits():
        model = on_torch(model_of(2, 300, 128, spread=0.05)).cuda()
        launch.train(model, text(300, sentences=400), [(30, 4, 32)], launches=launches)
        return flat(model)

    before = bits()
    program = f"""
        import sys
        sys.path[:0] = {sys.path!r}
        from trained_in_one import model_of, on_torch, text
        from minikernel.model.train import launch
        model = on_torch(model_of(2, 300, 128, spread=0.05)).cuda()
        told = lambda taken, steps: taken > 10 and print(taken, flush=True)
        launch.train(model, text(300, sentences=400), [(300000, 4, 32)], launches={launches!r}, report=told)
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert int(child.stdout.readline()) < 300000
    finally:
        child.kill()
    assert child.wait(60) == -signal.SIGKILL
    assert np.array_equal(bits(), before)
