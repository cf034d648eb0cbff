"""`maybe_compile` on a GPU: Triton kernels, CUDA graphs, and the same ways back to eager as on a CPU."""

import logging

import pytest
import torch
from safe_models import build, failing, failing_backward, fingerprint, ids, lying, lying_backward
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import cudagraph_trees

from minicompile import CompileConfig, ShapeStabilizer, benchmark, compile_report, maybe_compile, uncompile

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("fresh_compiler"),
]
DEVICE = "cuda"
logger = logging.getLogger("safe_gpu")


def on_gpu(name: str) -> tuple[nn.Module, torch.Tensor]:
    model, batch = build(name)
    return model.to(DEVICE), batch.to(DEVICE)


def trained(model: nn.Module, batch: torch.Tensor) -> torch.optim.Optimizer:
    """The model with gradients on it and an optimizer that has state."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return optimizer


def losses(model: nn.Module, batch: torch.Tensor, steps: int = 6) -> list[float]:
    """Of a few training steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for _ in range(steps):
        torch.compiler.cudagraph_mark_step_begin()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_model_trains_as_eager_does(mode: str):
    eager, batch = on_gpu("minigpt")
    expected = losses(eager, batch)
    model, _ = on_gpu("minigpt")
    keys = list(model.state_dict())
    counters.clear()
    assert maybe_compile(model, CompileConfig(enabled=True, mode=mode), logger, batch) is model
    assert compile_report(model).compiled, compile_report(model).reason
    assert losses(model, batch) == pytest.approx(expected, rel=1e-3)
    assert list(model.state_dict()) == keys
    assert not compile_report(model).recompiles
    if mode == "reduce-overhead":
        assert not counters["inductor"]["cudagraph_skips"]
        assert cudagraph_trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False) is not None


@pytest.mark.parametrize("name", ["dropout", "batch_norm", "in_place_buffer"])
def test_the_smoketest_leaves_no_trace(name: str):
    model, batch = on_gpu(name)
    optimizer = trained(model, batch)
    before, generator = fingerprint(model, optimizer), torch.cuda.get_rng_state()
    maybe_compile(model, CompileConfig(enabled=True), logger, batch, optimizer=optimizer)
    assert compile_report(model).compiled, compile_report(model).reason
    uncompile(model)
    assert fingerprint(model, optimizer) == before
    assert torch.equal(torch.cuda.get_rng_state(), generator)


def test_dropout_draws_the_gpu_s_random_numbers_that_eager_draws():
    model, batch = on_gpu("dropout")
    maybe_compile(model, CompileConfig(enabled=True), logger, batch)
    torch.manual_seed(3)
    ours = model(batch)
    uncompile(model)
    torch.manual_seed(3)
    torch.testing.assert_close(ours, model(batch))


@pytest.mark.parametrize(
    ("backend", "stage"),
    [(failing, "forward"), (failing_backward, "backward"), (lying, "numerics"), (lying_backward, "numerics")],
)
def test_failure_gives_back_the_model_bit_for_bit(backend, stage: str):
    model, batch = on_gpu("in_place_buffer")
    optimizer = trained(model, batch)
    before = fingerprint(model, optimizer)
    assert (
        maybe_compile(model, CompileConfig(enabled=True, backend=backend), logger, batch, optimizer=optimizer) is model
    )
    assert compile_report(model).stage == stage
    assert fingerprint(model, optimizer) == before


def test_an_option_that_inductor_does_not_know_falls_back():
    model, batch = on_gpu("mlp")
    expected = model(batch)
    maybe_compile(model, CompileConfig(enabled=True, options={"no_such_option": 1}), logger, batch)
    assert compile_report(model).stage == "compile"
    assert torch.equal(model(batch), expected)


def test_recompiles_are_counted_and_one_that_fails_runs_eager():
    compiles = []

    def twice(graph_module, example_inputs):
        compiles.append(1)
        if len(compiles) > 2:
            raise NotImplementedError("twice is enough")
        return graph_module

    model, batch = on_gpu("mlp")
    maybe_compile(model, CompileConfig(enabled=True, backend=twice, dynamic=False), logger, batch)
    model(batch[:4])
    assert len(compile_report(model).recompiles) == 1
    expected = uncompiled(model, batch[:2])
    assert torch.equal(model(batch[:2]), expected)
    assert compile_report(model).stage == "call"


def uncompiled(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    with torch.compiler.set_stance("force_eager"):
        return model(batch)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_every_bucket_takes_one_graph_and_none_on_the_second_round(mode: str):
    stabilizer = ShapeStabilizer((4, 8, 16))
    model, _ = on_gpu("minigpt")
    model.eval()
    with torch.no_grad():
        cfg = CompileConfig(enabled=True, mode=mode, dynamic=False)
        maybe_compile(model, cfg, logger, stabilizer.bucket_batch(ids(length=3).to(DEVICE)))
        graphs = []
        for _ in range(2):
            for length in (3, 8, 11, 16, 5):
                padded = stabilizer.bucket_batch(ids(length=length).to(DEVICE))
                torch.compiler.cudagraph_mark_step_begin()
                ours = model(padded).clone()
                torch.testing.assert_close(ours, uncompiled(model, padded), rtol=1e-4, atol=1e-5)
            graphs.append(compile_report(model).graphs)
    assert graphs == [3, 3]


def test_tf32_has_a_tolerance_of_its_own():
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        model, batch = on_gpu("minigpt")
        maybe_compile(model, CompileConfig(enabled=True), logger, batch)
        report = compile_report(model)
    finally:
        torch.set_float32_matmul_precision(precision)
    assert (report.compiled, report.dtype) == (True, "tf32"), report.reason


def test_the_benchmark_knows_the_gpu_s_memory():
    model, batch = on_gpu("mlp")
    result = benchmark(model, CompileConfig(backend="aot_eager"), batch, steps=3, warmup=1)
    assert result.eager.peak_bytes > 0
    assert result.compiled.peak_bytes > 0
