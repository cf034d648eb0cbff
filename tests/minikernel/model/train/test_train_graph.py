"""The rung `graph` of the training: the bits of the one launch, in launches of its own."""

import numpy as np
import pytest
import torch
from trained_in_one import BLOCKS, flat, model_of, on_torch, text

from minikernel.model.train import graph, launch
from minikernel.model.train.layout import Phase
from minikernel.model.train.tables import AdamW
from minikernel.proof.compile_cuda import compile_cuda, cuda_compiler
from minilab import LabError

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
PHASES = [(2, 2, 16), (3, 2, 32)]  # one block a sequence, then two that exchange keys and values


def both(start, *given, device="cpu", **options):
    """(model, what `train` returns) in one launch, then as a graph."""
    made = []
    for launches in (launch.ONE, launch.GRAPH):
        model = on_torch(start).to(device)
        made.append((model, launch.train(model, *given, launches=launches, **options)))
    return made


@pytest.mark.parametrize("layers", [1, 2])  # of one layer gradients are summed while the tile is on its way back
def test_it_has_the_bits_of_the_one_launch(gpu, layers):
    stream, held_out = text(24), text(24, sentences=31, seed=8)
    (one, told), (other, found) = both(
        model_of(layers, 24, 32), stream, [(1, 1, 16), *PHASES], seed=5, held_out=held_out, evaluate_every=2
    )
    assert np.array_equal(flat(one), flat(other))
    assert np.array_equal(told.losses, found.losses)
    assert np.array_equal(told.norms, found.norms)
    assert told.held_out == found.held_out
    assert len(found.held_out) == 4  # before the first step, after the second, the fourth and the sixth


@pytest.mark.slow
def test_with_operands_of_bfloat16_too(gpu):
    (one, told), (other, _) = both(model_of(1, 24, 32), text(24), [(2, 2, 32)], operands="bfloat16")
    exact = on_torch(model_of(1, 24, 32))
    losses = launch.train(exact, text(24), [(2, 2, 32)]).losses
    assert np.array_equal(flat(one), flat(other))
    assert not np.array_equal(told.losses, losses)
    np.testing.assert_allclose(told.losses, losses, rtol=2e-2)


def test_a_step_is_three_launches_and_an_evaluation_two(gpu):
    launch.train(on_torch(model_of(1, 24, 32)), text(24), [(2, 2, 16)], held_out=text(24, 20, 8), launches=launch.GRAPH)
    step = [2, BLOCKS, BLOCKS]  # two sequences of one tile
    # weights are packed first
    assert gpu.launched == [("train_phase", blocks) for blocks in [BLOCKS, BLOCKS, 1, *step, *step, BLOCKS, 1]]


def test_a_loss_that_is_not_finite_ends_it_with_the_parameters_before_it(gpu, monkeypatch):
    monkeypatch.setattr(graph, "STEPS", 1)
    start = model_of(1, 24, 32)
    start.arrays["blocks.0.mlp.fc.weight"][0, 0] = np.inf
    model = on_torch(start)
    with pytest.raises(LabError, match="no longer finite at step 1"):
        launch.train(model, text(24), [(9, 1, 16)], launches=launch.GRAPH)
    assert np.array_equal(flat(model), start.parameters.astype(np.float32))
    assert len(gpu.launched) == 1 + 3  # nothing is asked for after the graph that failed


def test_an_exception_from_report_ends_it_after_the_graphs_that_were_asked_for(gpu, monkeypatch):
    monkeypatch.setattr(graph, "STEPS", 2)
    start, told = model_of(1, 24, 32), []

    def report(taken, steps):
        told.append(taken)
        if taken == 4:
            raise KeyboardInterrupt

    model, shorter = on_torch(start), on_torch(start)
    still = AdamW(warmup=0, learning_rate=0.01, final_learning_rate=0.01)  # the same rate whatever the schedule
    with pytest.raises(KeyboardInterrupt):
        launch.train(model, text(24), [(7, 1, 16)], report=report, launches=launch.GRAPH, optimizer=still)
    launch.train(shorter, text(24), [(4, 1, 16)], optimizer=still)
    assert told == [2, 4]
    assert np.array_equal(flat(model), flat(shorter))


@pytest.mark.parametrize(("layers", "words"), [(6, 24), (1, 3100)])
def test_more_layers_or_words_than_one_launch_takes_are_trained_as_a_graph(gpu, layers, words):
    start, stream = model_of(layers, words, 16, spread=0.05), text(words)
    with pytest.raises(LabError, match="Train it with launches='graph'"):
        launch.train(on_torch(start), stream, [(1, 1, 16)])
    model = on_torch(start)
    trained = launch.train(model, stream, [(2, 2, 16)], seed=3, launches=launch.EITHER)
    assert {name for name, _ in gpu.launched} == {graph.EXPRESSION}
    exact, generator = start.astype(np.float64), np.random.default_rng(3)
    loss, _ = exact.loss_and_gradients(*stream.rows(stream.random_places(generator, 2, 16)))
    assert trained.losses[0] == pytest.approx(loss, rel=1e-6)
    assert trained.norms[0] == pytest.approx(np.linalg.norm(exact.gradients), rel=1e-5)
    assert not np.array_equal(flat(model), start.parameters)


def test_where_one_launch_takes_a_model_either_is_one(gpu):
    launch.train(on_torch(model_of(1, 24, 16)), text(24), [(1, 1, 16)], launches=launch.EITHER)
    assert [name for name, _ in gpu.launched] == [launch.EXPRESSION]


def test_too_many_words_for_a_graph_are_refused(gpu):
    with pytest.raises(LabError, match="keeps 3200 words of 16 tokens in a block"):
        launch.train(on_torch(model_of(1, 3200, 16)), text(24), [(1, 1, 16)], launches=launch.GRAPH)


def test_another_way_is_refused():
    with pytest.raises(LabError, match="launches is 'two'; it is one of one, graph, either"):
        launch.train(on_torch(model_of(1, 24, 32)), text(24), PHASES, launches="two")


@pytest.mark.parametrize("every", [1, 3, 4, 7, 100])
@pytest.mark.parametrize("evaluates", [False, True])
def test_a_schedule_is_cut_into_graphs_without_losing_a_step_or_an_evaluation(every, evaluates):
    phases = [Phase(5, 2, 16), Phase(41, 1, 32), Phase(8, 1, 16)]
    cut = graph.segments(phases, every, evaluates=evaluates)
    parts = [part for segment in cut for part in graph.parts_of(segment)]
    done, evaluated, of_phase = 0, [], [0, 0, 0]
    for part in parts:
        assert 0 <= part.steps <= graph.STEPS
        done += part.steps
        of_phase[part.phase] += part.steps
        evaluated += [done] if part.evaluates else []
    assert of_phase == [5, 41, 8]
    assert [part.phase for part in parts] == sorted(part.phase for part in parts)
    assert evaluated == ([n for n in range(55) if n % every == 0 or n == 54] if evaluates else [])


@pytest.mark.skipif(cuda_compiler() is None, reason="needs NVRTC or nvcc")
def test_it_compiles_for_an_h100_and_a_block_of_512_threads_has_the_registers():
    (kernel,) = compile_cuda("minikernel.model.train.graph")["kernels"]
    assert kernel["registers"] * 512 <= 65536
    assert kernel["shared_bytes"] == 0
    assert kernel["stack_bytes"] <= 400


@pytest.mark.gpu
@needs_gpu
def test_on_a_gpu_it_has_the_bits_of_the_one_launch():
    stream, held_out = text(300, sentences=400), text(300, sentences=90, seed=8)
    phases = [(25, 5, 16), (3, 3, 48), (21, 2, 128)]
    (one, told), (other, found) = both(
        model_of(2, 300, 128, spread=0.05), stream, phases, device="cuda", held_out=held_out, evaluate_every=20
    )
    assert np.array_equal(flat(one), flat(other))
    assert np.array_equal(told.losses, found.losses)
    assert told.held_out == found.held_out


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("launches", [launch.ONE, launch.GRAPH])
def test_on_a_gpu_operands_of_bfloat16_are_near_those_of_float32(launches):
    start, stream, losses = model_of(2, 300, 128, spread=0.05), text(300, sentences=400), []
    options = {"launches": launches, "optimizer": AdamW(learning_rate=1e-4)}
    for operands in ("float32", "bfloat16", "bfloat16"):
        trained = launch.train(on_torch(start).cuda(), stream, [(20, 4, 32)], operands=operands, **options)
        losses.append(trained.losses)
    assert np.array_equal(losses[1], losses[2])
    assert not np.array_equal(losses[0], losses[1])
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-2)


@pytest.mark.gpu
@needs_gpu
def test_on_a_gpu_more_layers_than_one_launch_takes_have_numpys_gradients():
    start, stream = model_of(8, 300, 128, spread=0.05), text(300, sentences=400)
    trained = launch.train(on_torch(start).cuda(), stream, [(2, 4, 128)], seed=3, launches=launch.EITHER)
    exact = start.astype(np.float64)
    loss, _ = exact.loss_and_gradients(*stream.rows(stream.random_places(np.random.default_rng(3), 4, 128)))
    assert trained.losses[0] == pytest.approx(loss, rel=2e-6)
    assert trained.norms[0] == pytest.approx(np.linalg.norm(exact.gradients), rel=2e-5)
