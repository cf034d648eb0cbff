"""`train`: what it does with a model, a text and a schedule, and what it refuses; the GPU is the emulator, or one."""

import numpy as np
import pytest
import torch
from trained_in_one import BLOCKS, emulated, flat, model_of, on_torch, text

import minikernel
from minikernel.model.train import launch
from minikernel.model.train.tables import AdamW
from minilab import LabError
from minimodel.model_config import MiniGPTConfig
from minimodel.torch_minigpt import GrammarMiniGPT

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SCHEDULE = [{"steps": 2, "batch": 2, "time": 16}, (1, 1, 32)]


def test_a_whole_schedule_is_one_launch_and_ends_in_the_model(gpu):
    start, stream, held_out = model_of(1, 24, 32), text(24), text(24, sentences=20, seed=8)
    model, told = on_torch(start), []
    trained = minikernel.train(
        model, stream, SCHEDULE, seed=5, held_out=held_out, evaluate_every=2, report=lambda *of: told.append(of)
    )
    assert gpu.launched == [("train_minigpt", BLOCKS)]
    kernel = emulated(start, stream, [(2, 2, 16), (1, 1, 32)], seed=5, held_out=held_out, blocks=BLOCKS)
    assert np.array_equal(flat(model), kernel.parameters)
    assert np.array_equal(trained.losses, kernel.losses)
    assert np.array_equal(trained.norms, kernel.norms)
    assert [row[:2] for row in trained.held_out] == [(0, 16), (2, 16), (3, 32)]
    assert [row[2] for row in trained.held_out] == kernel.held_out[:3].tolist()
    assert trained.seconds == 1.5
    assert told == [(3, 3)]


def test_without_a_held_out_text_nothing_is_evaluated(gpu):
    assert launch.train(on_torch(model_of(1, 24, 32)), text(24), [(1, 1, 16)]).held_out == []


def test_an_exception_from_report_leaves_the_parameters_of_the_last_step(gpu):
    start = model_of(1, 24, 32)
    model = on_torch(start)

    def report(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch.train(model, text(24), [(1, 1, 16)], report=report)
    assert np.array_equal(flat(model), emulated(start, text(24), [(1, 1, 16)], seed=42, blocks=BLOCKS).parameters)


@pytest.mark.parametrize("launched", [False, True])
def test_one_that_is_interrupted_as_it_starts_is_waited_for_before_its_memory_is_given_back(gpu, monkeypatch, launched):
    start, waited = model_of(1, 24, 32), []
    kernel, model = gpu.cuLaunchCooperativeKernel, on_torch(start)

    def interrupted(*given):
        if launched:
            kernel(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu, "cuLaunchCooperativeKernel", interrupted)
    monkeypatch.setattr(launch, "_wait_for_stream", waited.append)
    with pytest.raises(KeyboardInterrupt):
        launch.train(model, text(24), [(1, 1, 16)])
    assert waited == [-1]  # the model's device
    assert np.array_equal(flat(model), flat(on_torch(start))) == (not launched)


def test_a_loss_that_is_not_finite_is_said_with_its_step(gpu):
    start = model_of(1, 24, 32)
    start.arrays["blocks.0.mlp.fc.weight"][0, 0] = np.nan
    with pytest.raises(LabError, match=r"no longer finite at step 1; lower the optimizer's learning_rate"):
        launch.train(on_torch(start), text(24), [(3, 1, 16)])


@pytest.mark.parametrize(
    ("config", "schedule", "words"),
    [
        (MiniGPTConfig(24, 32, n_layer=1, n_embd=32), [(1, 1, 16)], "n_embd 64 and n_head 4, and this model 32 and 4"),
        (MiniGPTConfig(24, 256, n_layer=1), [(1, 1, 16)], "at most 128 positions, and this model 256"),
        (MiniGPTConfig(705, 32), [(1, 1, 16)], r"4 layers and 705 words .* fits an H100"),
        (MiniGPTConfig(24, 32, n_layer=5), [(1, 1, 16)], r"5 layers and 24 words"),
        (MiniGPTConfig(24, 32, n_layer=1), [], "no phase"),
        (MiniGPTConfig(24, 32, n_layer=1), [(0, 1, 16)], r"\(0, 1, 16\); each must be at least 1"),
        (MiniGPTConfig(24, 32, n_layer=1), [(1, 1, 48)], "rows of 48 tokens, block_size is 32"),
        (MiniGPTConfig(24, 32, n_layer=1), [(1, 1, 24)], "a multiple of 16 tokens, and a phase of the schedule 24"),
        (MiniGPTConfig(24, 64, n_layer=1), [(1, 1, 64)], "has 4 blocks, and this GPU 3"),
        (MiniGPTConfig(23, 32, n_layer=1), [(1, 1, 16)], "outside the model's vocabulary of 23"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(gpu, config, schedule, words):
    stream = text(24)
    stream.ids[0] = 23
    with pytest.raises(LabError, match=words):
        launch.train(GrammarMiniGPT(config), stream, schedule)
    assert not gpu.launched


def test_704_words_fit_an_h100_and_one_more_row_of_32_does_not():
    launch.check_model(MiniGPTConfig(704, 128), 232448)
    with pytest.raises(LabError, match="737 words"):
        launch.check_model(MiniGPTConfig(737, 128), 232448)


def test_evaluations_must_be_some_steps_apart(gpu):
    with pytest.raises(LabError, match="evaluate_every is 0"):
        launch.train(on_torch(model_of(1, 24, 32)), text(24), [(1, 1, 16)], evaluate_every=0)


def test_operands_are_those_that_are_asked_for(gpu):
    start = model_of(1, 24, 32)
    model = on_torch(start)
    launch.train(model, text(24), [(1, 1, 16)], seed=0, operands="bfloat16")
    rounded = emulated(start, text(24), [(1, 1, 16)], operands="bfloat16")
    assert np.array_equal(flat(model), rounded.parameters)
    assert not np.array_equal(flat(model), emulated(start, text(24), [(1, 1, 16)]).parameters)
    with pytest.raises(LabError, match="operands are 'float16'; take one of float32, bfloat16"):
        launch.train(model, text(24), [(1, 1, 16)], operands="float16")


def test_a_model_on_the_cpu_is_refused():
    with pytest.raises(LabError, match="runs on a GPU, and this model is on cpu"):
        launch.train(on_torch(model_of(1, 24, 32)), text(24), [(1, 1, 16)])


def test_the_name_is_the_packages_and_imports_nothing_until_it_is_used():
    assert minikernel.HOMES["train"] == "minikernel.model.train.launch"
    assert minikernel.train is launch.train


@pytest.mark.gpu
@needs_gpu
def test_gradients_and_ends_on_a_gpu():
    start, stream = model_of(2, 300, 128, spread=0.05), text(300, sentences=400)
    models = [on_torch(start).cuda() for _ in range(2)]
    phases = [(3, 5, 16), (3, 3, 48), (3, 2, 128)]
    runs = [launch.train(model, stream, phases, seed=1) for model in models]
    for mine, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(mine, other)
    exact, generator = start.astype(np.float64), np.random.default_rng(1)
    loss, _ = exact.loss_and_gradients(*stream.rows(stream.random_places(generator, 5, 16)))
    assert runs[0].losses[0] == pytest.approx(loss, rel=1e-6)
    assert runs[0].norms[0] == pytest.approx(np.linalg.norm(exact.gradients), rel=1e-5)


@pytest.mark.gpu
@needs_gpu
def test_a_training_that_is_ended_leaves_the_gpu_usable(monkeypatch):
    model, stream, made = on_torch(model_of(2, 300, 128, spread=0.05)).cuda(), text(300, sentences=400), []

    class Kept(launch._Launch):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    def report(taken, steps):
        if taken > 10:
            raise KeyboardInterrupt

    monkeypatch.setitem(launch.WAYS, launch.ONE, Kept)
    with pytest.raises(KeyboardInterrupt):
        launch.train(model, stream, [(20000, 64, 16)], report=report, optimizer=AdamW(learning_rate=1e-4))
    assert 10 < int(made[0].host[launch.PROGRESS]) < 20000
    assert torch.isfinite(model.lm_head.weight).all()
