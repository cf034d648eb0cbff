"""The training in one launch is NumPy's: gradients, steps and losses, on the emulator and on a GPU."""

import emulator
import numpy as np
import pytest
from trained_in_one import by_name, emulated, model_of, text

from minikernel.model.train import launch
from minikernel.model.train.tables import AdamW
from minikernel.proof.compile_cuda import compile_cuda, cuda_compiler
from minimodel.optim import AdamW as Reference
from minimodel.optim import clip_gradients, cosine_schedule

pytestmark = pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++")
NO_CLIP = AdamW(clip=1e9)


def trained_by_numpy(model, stream, phases, optimizer, seed):
    """The exact training, float64: losses and norms of each step; `model` has its end."""
    generator, steps = np.random.default_rng(seed), sum(phase[0] for phase in phases)
    decayed = [array for array in model.arrays.values() if array.ndim == 2]
    betas = optimizer.beta_1, optimizer.beta_2
    reference = Reference(model.parameters, decayed, betas, optimizer.epsilon, optimizer.weight_decay)
    found = []
    for batch, length in [phase[1:] for phase in phases for _ in range(phase[0])]:
        loss, _ = model.loss_and_gradients(*stream.rows(stream.random_places(generator, batch, length)))
        norm = clip_gradients(model.gradients, optimizer.clip)
        rate = cosine_schedule(
            len(found), steps, optimizer.learning_rate, optimizer.final_learning_rate, optimizer.warmup
        )
        reference.step(model.gradients, rate)
        found.append((loss, norm))
    return np.array(found).T


@pytest.mark.parametrize(
    ("layers", "words", "positions", "batch", "length", "blocks"),
    [
        (2, 45, 64, 3, 32, 7),  # tiles in two blocks; a block without a tile, too few to sum gradients early
        (1, 340, 128, 1, 128, 9),  # eight blocks that exchange keys and values; all parts of attention's backward pass
        (2, 40, 16, 2, 16, 17),  # fifteen blocks sum gradients while two compute
        (1, 33, 48, 5, 48, 4),  # more sequences than the blocks have at once
        (1, 20, 16, 44, 16, 9),  # more tokens than a block has room for pieces: places are used again
    ],
)
def test_gradients_of_every_parameter_are_numpys(layers, words, positions, batch, length, blocks):
    model, stream = model_of(layers, words, positions), text(words)
    out = emulated(model, stream, [(1, batch, length)], optimizer=NO_CLIP, seed=2, blocks=blocks)
    exact = model.astype(np.float64)
    places = stream.random_places(np.random.default_rng(2), batch, length)
    loss, gradients = exact.loss_and_gradients(*stream.rows(places))
    assert out.losses[0] == pytest.approx(loss, rel=1e-6)
    assert out.norms[0] == pytest.approx(np.linalg.norm(exact.gradients), rel=1e-5)
    for name, found in by_name(model, out.gradients).items():
        # float32 with sums of float32: an error of some 2^-19 of the largest
        assert np.abs(found - gradients[name]).max() <= 4e-6 * np.abs(gradients[name]).max(), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_random_sizes_are_numpys_in_a_random_order_of_threads(seed):
    random = np.random.default_rng(seed)
    layers, words, length = int(random.integers(1, 4)), int(random.integers(2, 120)), 16 * int(random.integers(1, 6))
    positions, batch = min(128, length + int(random.integers(0, 40))), int(random.integers(1, 5))
    blocks = length // 16 + int(random.integers(0, 14))
    model, stream = model_of(layers, words, positions, spread=0.1), text(words, sentences=80, seed=seed)
    out = emulated(model, stream, [(1, batch, length)], optimizer=NO_CLIP, blocks=blocks, order=seed)
    exact = model.astype(np.float64)
    places = stream.random_places(np.random.default_rng(0), batch, length)
    loss, gradients = exact.loss_and_gradients(*stream.rows(places))
    assert out.losses[0] == pytest.approx(loss, rel=1e-6)
    for name, found in by_name(model, out.gradients).items():
        assert np.abs(found - gradients[name]).max() <= 4e-6 * np.abs(gradients[name]).max(), name


def test_steps_of_two_phases_are_numpys():
    model, stream = model_of(1, 30, 32, spread=0.05), text(30)
    optimizer = AdamW(learning_rate=0.01, final_learning_rate=0.002, warmup=2, weight_decay=0.3, clip=0.7, epsilon=1e-4)
    phases = [(2, 3, 16), (2, 2, 32)]
    out = emulated(model, stream, phases, optimizer=optimizer, seed=4, blocks=4)
    exact = model.astype(np.float64)
    losses, norms = trained_by_numpy(exact, stream, phases, optimizer, 4)
    assert (norms > optimizer.clip).any()  # so that clipping is part of this
    np.testing.assert_allclose(out.losses, losses, rtol=3e-6)
    np.testing.assert_allclose(out.norms, norms, rtol=2e-5)
    moved = np.abs(exact.parameters - model.parameters).max()
    assert np.abs(out.parameters - exact.parameters).max() < 1e-3 * moved
    assert out.host[0] == 4


def test_the_bits_are_the_same_in_whatever_order_threads_run():
    model, stream = model_of(1, 24, 32), text(24)
    runs = [emulated(model, stream, [(2, 2, 32)], blocks=6, order=order) for order in (0, 1, 2)]
    for other in runs[1:]:
        for of in ("parameters", "mean", "square", "losses", "norms"):
            assert np.array_equal(getattr(runs[0], of), getattr(other, of)), of


def test_the_held_out_loss_is_taken_before_every_so_many_steps_and_after_the_last():
    model, stream, held_out = model_of(1, 24, 32), text(24), text(24, sentences=31, seed=9)
    still = AdamW(learning_rate=0, final_learning_rate=0)  # so that all that differs is the rows' length
    out = emulated(model, stream, [(2, 1, 16), (3, 1, 32)], optimizer=still, held_out=held_out, blocks=3, every=2)
    exact = model.astype(np.float64)
    of_length = {n: exact.loss(*held_out.rows(held_out.consecutive_places(n))).mean() for n in (16, 32)}
    assert of_length[16] != pytest.approx(of_length[32], rel=1e-4)
    lengths = [16, 16, 32, 32]  # before the first step, after the second, the fourth and the fifth
    np.testing.assert_allclose(out.held_out, [of_length[n] for n in lengths], rtol=1e-6)


def test_a_host_that_asks_for_it_has_the_training_end_after_a_step():
    model, stream = model_of(1, 24, 16), text(24)
    out = emulated(model, stream, [(3, 2, 16)], stop=1)
    assert out.host[0] == 1
    assert np.isfinite(out.losses[0])
    assert np.isnan(out.losses[1:]).all()
    once = emulated(model, stream, [(3, 2, 16)])
    assert out.losses[0] == once.losses[0]
    assert not np.array_equal(out.parameters, model.parameters)


def test_a_loss_that_is_not_finite_ends_the_training_with_the_parameters_before_it():
    model, stream = model_of(1, 24, 16), text(24)
    model.arrays["blocks.0.mlp.fc.weight"][0, 0] = np.inf
    out = emulated(model, stream, [(3, 2, 16)])
    assert out.host[0] == 1
    assert not np.isfinite(out.norms[0])
    assert np.array_equal(out.parameters, model.parameters)


@pytest.mark.skipif(cuda_compiler() is None, reason="needs NVRTC or nvcc")
@pytest.mark.parametrize("operands", launch.SOURCES)
def test_it_compiles_for_an_h100_and_a_block_of_512_threads_has_the_registers(operands, monkeypatch):
    monkeypatch.setattr(launch, "SOURCE", launch.SOURCES[operands])
    (kernel,) = compile_cuda("minikernel.model.train.launch")["kernels"]
    assert kernel["registers"] * 512 <= 65536
    assert kernel["shared_bytes"] == 0
    # what spills is read from L2, since weights pass through what is left of L1
    assert kernel["stack_bytes"] <= 400


def test_operands_of_bfloat16_are_rounded_and_everything_else_is_float32():
    model, stream = model_of(2, 45, 64), text(45)
    slow = AdamW(learning_rate=1e-5, final_learning_rate=1e-5, warmup=1, weight_decay=0, clip=1e9)
    phases = [(2, 3, 32), (1, 2, 64)]
    out = emulated(model, stream, phases, optimizer=slow, seed=2, blocks=7, operands="bfloat16")
    exact = model.astype(np.float64)
    losses, norms = trained_by_numpy(exact, stream, phases, slow, 2)
    np.testing.assert_allclose(out.losses, losses, rtol=2e-3)
    np.testing.assert_allclose(out.norms, norms, rtol=1e-2)
    assert np.abs(out.norms / norms - 1).max() > 1e-5  # float32's error is a hundredth of that
    # a step is less than bfloat16's spacing of most weights, and is taken
    moved = exact.parameters - model.parameters
    assert np.linalg.norm(out.parameters - model.parameters - moved) < 0.1 * np.linalg.norm(moved)


def test_the_copies_that_products_read_are_the_parameters_after_the_last_step():
    model, stream = model_of(2, 130, 32), text(130)
    out = emulated(model, stream, [(2, 2, 32)], blocks=3)
    of, slot = by_name(model, out.parameters), 4 * 512  # floats
    layer = 50 * slot

    def slots(at, count):
        return out.packed[at : at + count * slot].reshape(count, 16, 8, 4, 4)  # warps, groups, pairs, four numbers

    for i in range(2):
        fc, proj, inner = (of[f"blocks.{i}.{name}.weight"] for name in ("mlp.fc", "mlp.proj", "attention.proj"))
        forth = fc.reshape(2, 16, 8, 4, 4, 4).transpose(0, 3, 1, 2, 4, 5).reshape(8, 16, 8, 4, 4)
        np.testing.assert_array_equal(slots(i * layer + 10 * slot, 8), forth)
        for weight, at, chunks in ((inner, 8, 1), (proj, 18, 4)):
            parts = weight.reshape(4, 2, 8, 4, chunks, 4, 4)  # outputs; quarter of the features, chunk, pair, number
            forth = parts.transpose(1, 4, 3, 0, 2, 5, 6).reshape(2 * chunks, 16, 8, 4, 4)
            np.testing.assert_array_equal(slots(i * layer + at * slot, 2 * chunks), forth)
        back = proj.reshape(4, 4, 2, 2, 16, 8, 2).transpose(0, 2, 4, 5, 1, 3, 6).reshape(8, 16, 8, 4, 4)
        np.testing.assert_array_equal(slots(i * layer + 26 * slot, 8), back)
    head = np.pad(of["lm_head.weight"], ((0, 126), (0, 0)))
    back = head.reshape(2, 4, 2, 4, 2, 2, 4, 8, 2).transpose(0, 2, 4, 1, 6, 7, 3, 5, 8).reshape(8, 16, 8, 4, 4)
    np.testing.assert_array_equal(slots(2 * layer + 8 * slot, 8), back)
