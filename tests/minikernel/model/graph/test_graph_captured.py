"""The rung `graph`: its 13 launches are the model, on the emulator for every plan, and on a GPU."""

import contextlib
import copy
import gc
import weakref
from itertools import product

import emulator
import numpy as np
import pytest
import torch
from pairwise import pairwise
from whole_model import exactly, largest_error, model_of, widened

from minikernel.model.graph import captured as graph
from minikernel.model.graph.launch import SOURCE, instances
from minikernel.model.graph.packing import order_of_words, packed
from minikernel.model.graph.plan import (
    MOST_PAIRS,
    PLANS,
    Buffers,
    head_of,
    launches,
    plan_of,
    room_for_words,
    row_tiles_of,
    workspace_bytes,
)
from minikernel.model.nvrtc import source
from minikernel.proof.compile_cuda import compile_cuda, cuda_compiler
from minilab import LabError
from minimodel.checkpoint import Checkpoint
from minimodel.model_config import MiniGPTConfig
from minimodel.port import port

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
needs_emulator = pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
TEXT = source(SOURCE)
TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}  # of the port's contract; of 8 significant bits, carried on
CASES = [
    # plan, layers, words, sequences, time, multiprocessors: few, so that a block takes several tiles
    *product((0, 1, 2), (1,), (600,), (1, 3), (1, 16, 17), (1, 132)),
    (0, 4, 600, 2, 16, 132), (1, 2, 37, 3, 5, 2), (2, 2, 601, 1, 64, 1), (1, 1, 2048, 1, 33, 16),
    (0, 1, 2046, 1, 40, 132), (2, 1, 1000, 1, 127, 3), (1, 1, 600, 1, 128, 2), (0, 1, 601, 1, 128, 132),
    (2, 4, 5, 2, 20, 1), (2, 1, 40, 20, 5, 1), (1, 1, 40, 9, 5, 1),  # more tiles than a block's groups
]  # fmt: skip


def emulated(model, ids, dtype, plan, probabilities, multiprocessors, seed=0, timed=False):
    """The model's output by the kernels of a plan on the emulator, and the timeline, if it is wanted."""
    config, shape = model.config, ids.shape
    weights = packed(config, model.arrays, dtype, room_for_words(config.vocab_size))
    sizes, floats = workspace_bytes(shape, dtype), plan.blocks * row_tiles_of(shape) * 16 * 64
    first = np.full(floats, np.nan, np.float32)
    streams = (first, first if plan.blocks == 1 else first.copy())
    qkv, mixed = (np.full(sizes[name], 255, np.uint8) for name in ("qkv", "mixed"))  # NaN in either type
    made = np.full((*shape, config.vocab_size), 0xFFFF if dtype == "bfloat16" else np.nan)
    made = made.astype(np.uint16 if dtype == "bfloat16" else np.float32)
    buffers = Buffers(
        list(weights.qkv), list(weights.feed_forward), weights.head, weights.tokens, weights.places, ids, made, streams,
        qkv, mixed, None,
    )  # fmt: skip
    stamps = []
    kernels = launches(
        config, shape, dtype, multiprocessors, buffers, probabilities=probabilities, timed=timed, plan=plan
    )
    assert len(kernels) == 3 * config.n_layer + 1
    for kernel in kernels:
        *arguments, _ = kernel.arguments
        stamps.append(np.zeros((kernel.grid[0] * kernel.grid[1], graph.EVENTS, 2), np.int64) if timed else None)
        emulator.Kernel(TEXT, kernel.expression).launch(
            kernel.grid, kernel.threads, [*arguments, stamps[-1]], shared_bytes=kernel.shared_bytes,
            cluster=kernel.cluster, seed=seed,
        )  # fmt: skip
    made = made if dtype == "float32" else widened(made)
    return made, stamps


@needs_emulator
@pytest.mark.parametrize(
    ("case", "dtype", "probabilities", "seed"),
    pairwise(
        product(CASES, ("float32", "bfloat16"), (True, False), (0, 7)),
        lambda case, dtype, probabilities, seed: (*case[:3], case[4], dtype, probabilities, seed),
    ),
)
def test_the_launches_are_the_model(case, dtype, probabilities, seed):
    plan, n_layer, words, sequences, time, multiprocessors = case
    model = model_of(MiniGPTConfig(vocab_size=words, block_size=128, n_layer=n_layer))
    ids = np.random.default_rng(time).integers(0, words, (sequences, time))
    made, _ = emulated(model, ids, dtype, PLANS[plan], probabilities, multiprocessors, seed)
    exact = exactly(model, ids, probabilities)
    np.testing.assert_allclose(made, exact, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * np.abs(exact).max())


@needs_emulator
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("wrong", [-1, 40, 2**40])
def test_an_id_that_is_no_word_makes_its_position_and_later_ones_no_number(wrong, dtype):
    model, ids = model_of(MiniGPTConfig(vocab_size=40, block_size=40, n_layer=2)), np.arange(80).reshape(2, 40) % 40
    ids[1, 18] = wrong
    made, _ = emulated(model, ids, dtype, PLANS[1], True, 2)
    assert np.isnan(made[1, 18:]).all()
    assert not np.isnan(made[0]).any()
    assert not np.isnan(made[1, :16]).any()  # the tiles of 16 rows before it


@needs_emulator
@pytest.mark.parametrize("plan", PLANS)
def test_a_timeline_goes_forward_and_changes_no_result(plan):
    model, ids = model_of(MiniGPTConfig(vocab_size=40, block_size=20, n_layer=1)), np.arange(40).reshape(2, 20)
    plain, _ = emulated(model, ids, "float32", plan, True, 2)
    timed, stamps = emulated(model, ids, "float32", plan, True, 2, timed=True)
    assert (timed == plain).all()
    for block in np.concatenate(stamps):
        spans = block[2:][block[2:, 0] > 0]
        assert set(spans[:, 0]) & {1, 2, 3} == set(spans[:, 0]) != set()
        assert (np.diff([block[1, 1], *spans[:, 1]]) >= 0).all()


@needs_emulator
@pytest.mark.parametrize("which", range(3))
def test_without_one_of_its_barriers_the_result_is_wrong(which):
    barrier = "named_barrier(1 + group, 32 * SPLIT);"
    parts = TEXT.split(barrier)
    assert len(parts) == 4
    parts[which : which + 2] = [parts[which] + parts[which + 1]]
    without = barrier.join(parts)
    model, ids = model_of(MiniGPTConfig(vocab_size=40, block_size=20, n_layer=1)), np.arange(40).reshape(2, 20)
    exact = exactly(model, ids, True)
    wrong = []
    for seed in range(4):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(globals(), "TEXT", without)
            made, _ = emulated(model, ids, "float32", PLANS[1], True, 2, seed)
        wrong.append(not np.allclose(made, exact, rtol=1e-5, atol=1e-5 * exact.max()))
    assert any(wrong)


def test_the_heads_words_are_all_there_and_a_lanes_four_are_neighbours():
    order = order_of_words(640)
    assert sorted(order) == list(range(640))
    tiles = order.reshape(-1, 2, 4, 2)  # pairs of tiles, lanes, a lane's two of each
    fours = tiles.transpose(0, 2, 1, 3).reshape(-1, 4)
    assert (fours == fours[:, :1] // 4 * 4 + np.arange(4)).all()


@pytest.mark.parametrize("words", [1, 16, 37, 600, 640, 641, 1000, 2048])
def test_every_plan_has_room_for_the_words_in_registers_and_shared_memory(words):
    for plan in PLANS:
        head = head_of(plan, words)
        assert words <= head.words <= room_for_words(words)
        assert head.pairs <= MOST_PAIRS
        assert head.words // head.cluster * 260 + 16 < 220_000
        assert head.cluster <= 8


def test_few_rows_are_spread_and_many_stay_on_the_multiprocessors():
    config, nowhere = (
        MiniGPTConfig(vocab_size=600, block_size=128),
        Buffers([0] * 4, [0] * 4, 0, 0, 0, 0, 0, (0, 0), 0, 0),
    )

    def blocks(shape):
        made = launches(config, shape, "float32", 132, nowhere, probabilities=True)
        return [kernel.grid for kernel in made if not kernel.expression.startswith("attend")]

    assert blocks((1, 16)) == [(1, 12), (1, 2)] * 4 + [(8, 1)]
    assert blocks((512, 128)) == [(2 * 132, 2), (132, 1)] * 4 + [(132, 1)]
    assert [plan_of(shape) for shape in ((32, 16), (33, 16), (10**6, 128))] == list(PLANS)


def test_without_a_gpu_it_refuses_in_a_sentence():
    model = port(Checkpoint(config=MiniGPTConfig(vocab_size=40, block_size=16), arrays=model_of(
        MiniGPTConfig(vocab_size=40, block_size=16)).arrays, metadata={}))[0]  # fmt: skip
    with pytest.raises(LabError, match="runs on a GPU, and this model is on cpu; move it"):
        graph.GraphForward(model, (1, 16))


def tensors_of(held):
    """All tensors that an object, or a tuple of such, holds."""
    if isinstance(held, torch.Tensor):
        return [held]
    return [tensor for each in held for tensor in tensors_of(each)] if isinstance(held, tuple) else []


@pytest.mark.parametrize("shape", [(1, 16), (9, 128), (150, 128)])
def test_a_capture_owns_every_address_that_its_launches_have(shape, monkeypatch):
    monkeypatch.setattr(graph, "check_takes", lambda *_: None)
    monkeypatch.setattr(graph, "launch", lambda *_, **__: None)
    monkeypatch.setattr(graph.softmax_cuda, "multiprocessors", lambda _: 132)
    for name in ("device", "graph", "synchronize", "CUDAGraph"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: contextlib.nullcontext())
    config = MiniGPTConfig(vocab_size=40, block_size=128)
    model = port(Checkpoint(config=config, arrays=model_of(config).arrays, metadata={}))[0]
    captured = graph.Captured(model, shape)
    own = tensors_of(tuple(each for name, each in vars(captured).items() if name != "_packed_of"))
    ends = [(each.data_ptr(), each.data_ptr() + each.nbytes) for each in own]
    for kernel in captured.kernels:
        *pointers, stamps = [each for each in kernel.arguments if not isinstance(each, np.int32)]
        assert stamps == 0
        assert all(any(begin <= pointer < end for begin, end in ends) for pointer in pointers), kernel.expression
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None  # so that a cache of captures may be a model's


def test_a_timeline_is_of_a_replay(monkeypatch):
    events = []

    class Graph:
        def replay(self):
            events.append("replay")

    @contextlib.contextmanager
    def capture(graph):
        events.append("begin")
        yield
        events.append("end")

    monkeypatch.setattr(graph, "check_takes", lambda *_: None)
    monkeypatch.setattr(graph, "launch", lambda kernels, dependent: events.append((len(kernels), dependent)))
    monkeypatch.setattr(graph.softmax_cuda, "multiprocessors", lambda _: 132)
    monkeypatch.setattr(torch.cuda, "device", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    config = MiniGPTConfig(vocab_size=40, block_size=16, n_layer=1)
    model = port(Checkpoint(config=config, arrays=model_of(config).arrays, metadata={}))[0]
    stamps = graph.timeline(model, torch.zeros((1, 16), dtype=torch.int64))
    assert events == [(4, True), "begin", (4, True), "end", "replay", "replay"]
    assert stamps.shape[1:] == (graph.EVENTS, 2)


def test_changed_weights_are_packed_once_more_and_the_graph_is_replayed_once_more(monkeypatch):
    config = MiniGPTConfig(vocab_size=40, block_size=16, n_layer=1)
    model = port(Checkpoint(config=config, arrays=model_of(config).arrays, metadata={}))[0]
    captured, replays = object.__new__(graph.Captured), []
    captured.ids, captured.output = torch.zeros((1, 3), dtype=torch.int64), torch.zeros(1)
    captured._packed_of, captured.weights = graph.Snapshot(model), graph.pack(model)
    monkeypatch.setattr(graph.Captured, "replay", lambda self: replays.append([each.clone() for each in self.weights]))
    captured.run(model, torch.ones((1, 3), dtype=torch.int64))
    assert captured.ids.tolist() == [[1, 1, 1]]
    with torch.no_grad():
        model.lm_head.bias += 1
    captured.run(model, captured.ids)
    captured.run(model, captured.ids)
    assert len(replays) == 4  # the second call's first was made before the parameters were looked at
    heads = [weights[2] for weights in replays]
    assert heads[0].equal(heads[1])
    assert not heads[1].equal(heads[2])
    assert heads[2].equal(heads[3])


@pytest.mark.skipif(cuda_compiler() is None, reason="needs NVRTC or nvcc")
def test_the_kernels_compile_for_a_hopper_and_spill_nothing():
    kernels = compile_cuda("minikernel.model.graph.launch")["kernels"]
    assert len(kernels) == len(instances())
    assert {kernel["name"]: kernel["stack_bytes"] for kernel in kernels if kernel["stack_bytes"]} == {}


def ported(config, dtype=torch.float32, seed=1):
    made = port(Checkpoint(config=config, arrays=model_of(config, seed).arrays, metadata={}))[0]
    return made.cuda().to(dtype)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dependent", [True, False])
@pytest.mark.parametrize("shape", [(1, 16), (2, 16), (64, 64), (300, 128)])
def test_replays_keep_the_contract(shape, dependent):
    model = ported(MiniGPTConfig(vocab_size=600, block_size=128))
    for probabilities in (True, False):
        forward = graph.GraphForward(model, shape, probabilities=probabilities, dependent=dependent)
        for _ in range(5):
            ids = torch.randint(0, 600, shape, device="cuda")
            assert largest_error(forward(ids), model, ids, probabilities) < 1


@pytest.mark.gpu
@needs_gpu
def test_a_thousand_random_shapes():
    rng = np.random.default_rng(0)
    models = [
        ported(MiniGPTConfig(vocab_size=v, block_size=128, n_layer=n)) for v, n in ((600, 4), (601, 1), (2048, 2))
    ]
    for _ in range(1000):
        model = models[rng.integers(len(models))]
        shape = (int(rng.integers(1, 40)), int(rng.integers(1, 129)))
        ids = torch.randint(0, model.config.vocab_size, shape, device="cuda")
        assert largest_error(graph.forward(model, ids), model, ids, True) < 1, shape


@pytest.mark.gpu
@needs_gpu
def test_bfloat16_is_as_near_as_torchs():
    model = ported(MiniGPTConfig(vocab_size=600, block_size=128), torch.bfloat16)
    for shape in [(1, 16), (64, 64), (300, 128)]:
        ids = torch.randint(0, 600, shape, device="cuda")
        forward = graph.GraphForward(model, shape, probabilities=False)
        with torch.no_grad():
            exact, torchs = copy.deepcopy(model).double()(ids), model(ids)
        assert forward(ids).dtype == torch.bfloat16
        assert (forward.output - exact).square().mean() < (torchs - exact).square().mean()


@pytest.mark.gpu
@needs_gpu
def test_changed_weights_are_packed_anew_into_the_same_graph():
    model = ported(MiniGPTConfig(vocab_size=600, block_size=128))
    ids = torch.ones((2, 16), dtype=torch.int64, device="cuda")
    forward = graph.GraphForward(model, (2, 16))
    forward(ids)
    with torch.no_grad():
        model.lm_head.bias[7] += 1000
    assert (forward(ids)[..., 7] == 1).all()


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("shape", [(1, 16), (64, 64)])
def test_a_capture_outlives_its_model_and_what_others_free(shape):
    model = ported(MiniGPTConfig(vocab_size=600, block_size=128))
    captured = graph.Captured(model, shape)
    ids = torch.randint(0, 600, shape, device="cuda")
    first = captured.run(model, ids).clone()
    del model
    gc.collect()
    torch.cuda.empty_cache()
    junk = [torch.full((2**20,), float("nan"), device="cuda") for _ in range(64)]
    captured.output.zero_()
    captured.replay()
    assert (captured.output == first).all()
    assert all(each.isnan().all() for each in junk)


@pytest.mark.gpu
@needs_gpu
def test_it_replays_on_the_current_stream():
    model = ported(MiniGPTConfig(vocab_size=600, block_size=128))
    ids = torch.randint(0, 600, (2, 16), device="cuda")
    forward = graph.GraphForward(model, (2, 16))
    with torch.cuda.stream(torch.cuda.Stream()):
        made = forward(ids).clone()
        torch.cuda.current_stream().synchronize()
    assert largest_error(made, model, ids, True) < 1


@pytest.mark.gpu
@needs_gpu
def test_the_timeline_of_a_gpu():
    model = ported(MiniGPTConfig(vocab_size=600, block_size=128))
    stamps = graph.timeline(model, torch.zeros((1, 16), dtype=torch.int64, device="cuda"))
    assert stamps.shape == (12 * 4 + 4 * 4 + 2 * 4 + 8, graph.EVENTS, 2)
    assert (stamps[:, 0, 0] < 132).all()
    assert (stamps[:, 0, 1] > 0).all()
    assert (stamps[:, 2, 0] > 0).all()
