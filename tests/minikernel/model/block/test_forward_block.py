"""The forward pass with whole sequences in a block: on the emulator for every division of a block, and on a GPU."""

import copy
from itertools import product

import emulator
import numpy as np
import pytest
import torch
from pairwise import pairwise
from whole_model import exactly, largest_error, model_of, widened

from minikernel import minigpt_forward
from minikernel.model.block import forward as forward_block
from minikernel.model.block.forward import PRECISION, Plan, expression, instances, plan, sequences_of, tiles_of
from minikernel.model.block.units import units
from minikernel.model.fragments import to_bfloat16
from minikernel.model.nvrtc import source
from minikernel.model.weights import NAMES
from minikernel.proof.compile_cuda import compile_cuda, cuda_compiler
from minilab import LabError
from minimodel.checkpoint import Checkpoint
from minimodel.model_config import MiniGPTConfig
from minimodel.port import port

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
needs_emulator = pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
TEXT = source(forward_block.SOURCE)
TYPES = {name: dtype for dtype, name in NAMES.items()}
TOLERANCE = {"float32": 1e-5, "bfloat16": 2e-2}  # of the port's contract; of 8 significant bits, carried on


def plan_with(team, length, groups=1):
    """A plan whose block has `groups` sequences, or tiles of several shorter ones."""
    return Plan(team, groups * sequences_of(length), groups * tiles_of(length), 2 if team == 1 else 1)


def emulated(model, ids, dtype, spread, probabilities, seed=0, timed=False, bounded=None):
    """The model's output by the kernel on the emulator, and the timeline, if it is wanted.

    A bfloat16 model's parameters are bfloat16 already: `rounded` makes them so.
    """
    config, (sequences, length) = model.config, ids.shape
    made = units(config, model.arrays, dtype, spread.team)
    tables = [np.ascontiguousarray(model.arrays[f"{kind}_embedding"]) for kind in ("token", "position")]
    if dtype == "bfloat16":
        tables = [to_bfloat16(table) for table in tables]
    out = np.full((*ids.shape, config.vocab_size), 0xFFFF if dtype == "bfloat16" else np.nan)
    out = out.astype(np.uint16 if dtype == "bfloat16" else np.float32)
    blocks = -(-sequences // spread.sequences)
    stamps = np.zeros((blocks, forward_block.EVENTS, 2), np.int64) if timed else None
    numbers = (forward_block.EVENTS, sequences, length, config.n_layer, config.vocab_size, spread.sequences)
    numbers += (made.of_head, int(probabilities), int(made.bounded if bounded is None else bounded))
    emulator.Kernel(TEXT, expression(TYPES[dtype], spread, timed)).launch(
        blocks, spread.threads, [made.words, *tables, ids, out, stamps, *map(np.int32, numbers)],
        shared_bytes=spread.shared_bytes(dtype), seed=seed,
    )  # fmt: skip
    return widened(out) if dtype == "bfloat16" else out, stamps


def rounded(model, dtype):
    """The model with parameters that the type can hold."""
    if dtype == "bfloat16":
        model.parameters[:] = widened(to_bfloat16(model.parameters))
    return model


def check(team, groups, n_layer, words, sequences, length, dtype, probabilities, seed):
    model = rounded(model_of(MiniGPTConfig(vocab_size=words, block_size=128, n_layer=n_layer)), dtype)
    ids = np.random.default_rng(length).integers(0, words, (sequences, length))
    made, _ = emulated(model, ids, dtype, plan_with(team, length, groups), probabilities, seed)
    exact = exactly(model, ids, probabilities)
    scale = 1.0 if dtype == "float32" else np.abs(exact).max()
    np.testing.assert_allclose(made, exact, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale)


FEW = [  # team, sequences or tiles of several of a block, layers, words, sequences, time, dtype, probabilities, seed
    (1, 1, 1, 37, 2, 17, "float32", True, 0),
    (2, 1, 1, 601, 1, 16, "float32", False, 7),
    (4, 2, 1, 37, 7, 5, "float32", True, 7),
    (1, 1, 1, 600, 1, 16, "bfloat16", True, 7),
    (2, 1, 1, 37, 1, 33, "bfloat16", False, 0),
    (4, 1, 2, 37, 1, 1, "bfloat16", True, 0),
]
MOST = {1: 8, 2: 8, 4: 3}  # tiles of a block that a plan gives a team
# Probabilities are made of the logits at the end, which knows neither layers nor tiles: each half of the rest has them.
MANY = [
    (
        team,
        groups if groups * tiles_of(time) <= MOST[team] else 1,
        layers,
        words,
        sequences,
        time,
        dtype,
        bool(odd),
        seed,
    )
    for team, layers, words, time, dtype in product(MOST, (1, 4), (37, 600, 601), (1, 5, 16, 17, 64, 127, 128), TYPES)
    if tiles_of(time) <= MOST[team]
    for odd in ((team + layers + words // 2 + time // 2) % 2,)
    for groups, sequences, seed in (((2, 3, 7) if (words + layers + time) % 3 == 0 else (1, 2, 0)),)
]


@needs_emulator
@pytest.mark.parametrize(
    ("team", "groups", "n_layer", "words", "sequences", "length", "dtype", "probabilities", "seed"), FEW
)
def test_a_launch_is_the_model(team, groups, n_layer, words, sequences, length, dtype, probabilities, seed):
    check(team, groups, n_layer, words, sequences, length, dtype, probabilities, seed)


@needs_emulator
@pytest.mark.parametrize(
    ("team", "groups", "n_layer", "words", "sequences", "length", "dtype", "probabilities", "seed"), pairwise(MANY)
)
def test_every_size_is_the_model(team, groups, n_layer, words, sequences, length, dtype, probabilities, seed):
    check(team, groups, n_layer, words, sequences, length, dtype, probabilities, seed)


@needs_emulator
@pytest.mark.parametrize("dtype", TYPES)
def test_large_logits_need_their_maximum_and_come_out_right(dtype):
    model = rounded(model_of(MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)), dtype)
    model.arrays["lm_head.bias"][:] += 400
    model.arrays["lm_head.bias"][5] = -400
    rounded(model, dtype)
    assert not units(model.config, model.arrays, dtype, 4).bounded
    ids = np.arange(16).reshape(1, 16)
    made, _ = emulated(model, ids, dtype, plan_with(4, 16), True)
    # float32 holds logits about 400 to 3e-5
    np.testing.assert_allclose(made, exactly(model, ids, True), rtol=1e-3 if dtype == "float32" else 0.1, atol=1e-5)


@needs_emulator
@pytest.mark.parametrize("wrong", [-1, 37, 2**40])
@pytest.mark.parametrize("dtype", TYPES)
def test_an_id_outside_the_vocabulary_gives_nan_from_there_on(dtype, wrong):
    model = rounded(model_of(MiniGPTConfig(vocab_size=37, block_size=32, n_layer=1)), dtype)
    ids = np.arange(14).reshape(2, 7)  # both in one tile
    ids[0, 4] = wrong
    made, _ = emulated(model, ids, dtype, plan_with(4, 7), True)
    assert np.isnan(made).all(-1).tolist() == [[False] * 4 + [True] * 3, [False] * 7]
    assert (np.isnan(made).any(-1) == np.isnan(made).all(-1)).all()


@needs_emulator
@pytest.mark.parametrize("team", [1, 2])
def test_an_unknown_id_reaches_later_tiles_only(team):
    model = model_of(MiniGPTConfig(vocab_size=37, block_size=64, n_layer=1))
    ids = np.random.default_rng(0).integers(0, 37, (1, 50))
    ids[0, 20] = 37
    made, _ = emulated(model, ids, "float32", plan_with(team, 50), False)
    assert np.isnan(made[0, 20:]).all()
    ids[0, 20] = 0  # whatever it is, those before do not see it
    np.testing.assert_allclose(made[0, :20], exactly(model, ids, False)[0, :20], rtol=1e-5, atol=1e-5)


@needs_emulator
@pytest.mark.parametrize("team", [1, 4])
def test_a_timeline_goes_forward_and_changes_no_result(team):
    model, ids = model_of(MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)), np.arange(32).reshape(2, 16)
    plain, _ = emulated(model, ids, "float32", plan_with(team, 16), True)
    timed, stamps = emulated(model, ids, "float32", plan_with(team, 16), True, timed=True)
    assert (timed == plain).all()
    for block in stamps:
        spans = block[2:][block[2:, 0] > 0]
        assert set(spans[:, 0] & 255) == {1, 2, 3}
        assert set(spans[:, 0] >> 8) == set(range(6))
        assert (np.diff([block[1, 1], *spans[:, 1]]) >= 0).all()


@needs_emulator
def test_without_the_barriers_of_a_team_the_result_is_wrong():
    barrier = "named_barrier(1 + tile, 32 * TEAM);"
    assert TEXT.count(barrier) == 2  # in the exchange of contributions, and of the sums of the head
    model, ids = model_of(MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)), np.arange(16).reshape(1, 16)
    exact = exactly(model, ids, True)
    for which in (1, 2):
        parts = TEXT.split(barrier)
        parts[which - 1 : which + 1] = [parts[which - 1] + parts[which]]
        wrong = []
        for seed in range(3):
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(globals(), "TEXT", barrier.join(parts))
                made, _ = emulated(model, ids, "float32", plan_with(4, 16), True, seed)
            wrong.append(not np.allclose(made, exact, rtol=1e-5, atol=1e-5))
        assert any(wrong)


def plans():
    """Every plan of an H200, of a smaller GPU, and of one with a single multiprocessor."""
    batches = [*range(1, 150), 200, 256, 300, 512, 528, 700, 1000, 5000]
    return {plan(batch, time, count) for count in (1, 78, 132) for batch in batches for time in range(1, 129)}


def test_every_plan_fits_and_is_among_the_instances_that_are_compiled():
    for each in plans():
        assert 1 <= each.tiles <= forward_block.MOST_TILES
        assert each.threads <= forward_block.MOST_THREADS[-1]
        for dtype in TYPES:
            assert each.slots(dtype) >= 3  # a unit is replaced two units after it was read
            assert each.shared_bytes(dtype) <= forward_block.SHARED_BYTES[each.blocks]
    assert {expression(dtype, each) for each in plans() for dtype in PRECISION} == set(instances())


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 16), Plan(4, 1, 1, 1)),
        ((3, 5), Plan(4, 3, 1, 1)),  # three sequences share a tile
        ((128, 32), Plan(4, 1, 2, 1)),
        ((64, 64), Plan(2, 1, 4, 1)),
        ((16, 128), Plan(2, 1, 8, 1)),
        ((512, 128), Plan(1, 1, 8, 2)),
    ],
)
def test_the_plan_is_the_one_that_was_fastest(shape, expected):
    assert plan(*shape, 132) == expected


def ported(config, dtype=torch.float32, seed=1):
    return port(Checkpoint(config=config, arrays=model_of(config, seed).arrays, metadata={}))[0].to(dtype)


def test_a_timeline_is_of_the_plans_launch(monkeypatch):
    model, launched = ported(MiniGPTConfig(vocab_size=37, block_size=16, n_layer=1)), []
    monkeypatch.setattr("minikernel.model.weights._check_place", lambda dtype, device: None)
    monkeypatch.setattr(forward_block.softmax_cuda, "multiprocessors", lambda device: 1)

    def launch(weights, sequences, length, probabilities, spread, stamps):
        def run(ids, out):
            launched.append((weights.config, ids.is_contiguous(), out.shape, out.dtype, probabilities, spread))
            stamps[:, 0, 1] = 7

        assert (sequences, length) == (3, 12)
        return run

    monkeypatch.setattr(forward_block, "launch", launch)
    ids = torch.zeros((12, 3), dtype=torch.int64).T
    made = forward_block.timeline(model, ids)
    spread = plan(3, 12, 1)
    assert launched == [(model.config, True, (3, 12, 37), torch.float32, True, spread)]
    assert made.shape == (-(-3 // spread.sequences), forward_block.EVENTS, 2)
    assert made.dtype == np.int64
    assert (made[:, 0, 1] == 7).all()
    with pytest.raises(LabError, match="17 ids, and the model's positions end at block_size = 16"):
        forward_block.timeline(model, torch.zeros((1, 17), dtype=torch.int64))
    monkeypatch.undo()
    with pytest.raises(LabError, match="runs on a GPU, and this model is on cpu"):
        forward_block.timeline(ported(MiniGPTConfig(vocab_size=37, block_size=16)), ids)


@pytest.mark.skipif(cuda_compiler() is None, reason="needs NVRTC or nvcc")
def test_the_kernels_compile_for_a_hopper_and_spill_nothing():
    kernels = compile_cuda("minikernel.model.block.forward")["kernels"]
    assert len(kernels) == len(instances())
    assert {kernel["name"]: kernel["stack_bytes"] for kernel in kernels if kernel["stack_bytes"]} == {}


def launched(model, ids, probabilities=True, spread=None):
    """The kernel's output, by the plan for the GPU or another."""
    weights = forward_block.weights_of(model)
    out = torch.full((*ids.shape, model.config.vocab_size), torch.nan, dtype=weights.dtype, device=ids.device)
    count = torch.cuda.get_device_properties(ids.device).multi_processor_count
    spread = spread or plan(*ids.shape, count)
    forward_block.launch(weights, *ids.shape, probabilities, spread)(ids, out)
    return out


SIZES = MiniGPTConfig(vocab_size=600, block_size=128)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("team", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 5, 16, 17, 48])
def test_every_team_keeps_the_contract(team, length):
    model = ported(SIZES).cuda()
    ids = torch.randint(0, 600, (37, length), device="cuda")
    for probabilities in (True, False):
        made = launched(model, ids, probabilities, plan_with(team, length))
        assert largest_error(made, model, ids, probabilities) < 1


@pytest.mark.gpu
@needs_gpu
def test_a_thousand_random_shapes():
    rng = np.random.default_rng(0)
    sizes = [(600, 4), (601, 1), (37, 4), (2048, 2)]
    models = [ported(MiniGPTConfig(vocab_size=v, block_size=128, n_layer=n)).cuda() for v, n in sizes]
    for _ in range(1000):
        model, probabilities = models[rng.integers(len(models))], bool(rng.integers(2))
        # so few that each plan is drawn, and now and then enough for two blocks of a multiprocessor
        shape = (int(rng.integers(1, 40 if rng.random() < 0.95 else 300)), int(rng.integers(1, 129)))
        ids = torch.randint(0, model.config.vocab_size, shape, device="cuda")
        assert largest_error(launched(model, ids, probabilities), model, ids, probabilities) < 1, shape


@pytest.mark.gpu
@needs_gpu
def test_bfloat16_is_as_near_as_torchs():
    model = ported(SIZES, torch.bfloat16).cuda()
    for shape in [(1, 16), (37, 5), (128, 32), (64, 64), (300, 128)]:
        ids = torch.randint(0, 600, shape, device="cuda")
        with torch.no_grad():
            exact, torchs = copy.deepcopy(model).double()(ids), model(ids)
        made = launched(model, ids, False)
        assert made.dtype == torch.bfloat16
        assert (made - exact).square().mean() < (torchs - exact).square().mean()


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dtype", PRECISION)
def test_an_unknown_id_gives_nan_to_those_who_attend_to_it(dtype):
    model = ported(SIZES, dtype).cuda()
    ids = torch.randint(0, 600, (9, 50), device="cuda")
    ids[2, 20], ids[3, 49], ids[4, 0] = -1, 600, 2**40
    expected = torch.zeros_like(ids, dtype=torch.bool)
    expected[2, 20:], expected[3, 49:], expected[4] = True, True, True
    for probabilities in (True, False):
        made = launched(model, ids, probabilities)
        assert made.isnan().all(-1).equal(expected)
        assert made.isnan().any(-1).equal(expected)


@pytest.mark.gpu
@needs_gpu
def test_changed_weights_are_packed_anew():
    model = ported(SIZES).cuda()
    ids = torch.ones((64, 64), dtype=torch.int64, device="cuda")
    minigpt_forward(model, ids, fall_back=False)
    with torch.no_grad():
        model.lm_head.bias[7] += 1000
    assert (minigpt_forward(model, ids, probabilities=True, fall_back=False)[..., 7] == 1).all()


@pytest.mark.gpu
@needs_gpu
def test_it_runs_on_the_current_stream_and_in_a_graph():
    model = ported(SIZES).cuda()
    ids = torch.randint(0, 600, (64, 64), device="cuda")
    eager = launched(model, ids)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = launched(model, ids)
    other_ids = torch.randint(0, 600, (64, 64), device="cuda")
    ids.copy_(other_ids)
    graph.replay()
    assert not made.equal(eager)
    assert largest_error(made, model, ids, True) < 1
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other = launched(model, ids)
        stream.synchronize()
    assert other.equal(made)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_another_device():
    model = ported(SIZES).to("cuda:1")
    ids = torch.randint(0, 600, (64, 64), device="cuda:1")
    assert largest_error(launched(model, ids), model, ids, True) < 1


@pytest.mark.gpu
@needs_gpu
def test_the_timeline_of_a_gpu():
    stamps = forward_block.timeline(ported(SIZES).cuda(), torch.zeros((64, 64), dtype=torch.int64, device="cuda"))
    assert stamps.shape == (64, forward_block.EVENTS, 2)
    assert (stamps[:, 0, 1] > 0).all()
    assert (stamps[:, 2, 0] > 0).all()
