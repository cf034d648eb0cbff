"""The testing matrix without Inductor: models, modes, dynamic, policies, good, failing and lying backends."""

import logging

import pytest
import torch
from safe_models import MODELS, build, failing, fingerprint, lying
from torch._dynamo.exc import BackendCompilerFailed

from minicompile import CompileConfig, compile_report, maybe_compile, uncompile
from minicompile.safe.compile_config import FAIL_POLICIES
from minicompile.safe.failures import WrongNumbers

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger(__name__)
MODES = ("default", "reduce-overhead", "max-autotune")
FAILURES = {"failing": (failing, BackendCompilerFailed, "forward"), "lying": (lying, WrongNumbers, "numerics")}


@pytest.mark.parametrize("policy", FAIL_POLICIES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_compiles_and_is_left_as_it_was(name, dynamic, backend, policy):
    model, batch = build(name)
    before = fingerprint(model)
    cfg = CompileConfig(enabled=True, backend=backend, dynamic=dynamic, fail_policy=policy)
    assert maybe_compile(model, cfg, logger, batch) is model
    report = compile_report(model)
    assert report.compiled, report.reason
    assert report.graphs >= 1
    assert not report.recompiles
    assert bool(report.graph_breaks) == (name == "data_dependent")
    assert set(report.differences) == {"output", "loss", "gradient"} | ({"buffer"} if before["buffers"] else set())
    uncompile(model)
    assert fingerprint(model) == before


@pytest.mark.parametrize("policy", FAIL_POLICIES)
@pytest.mark.parametrize("backend", FAILURES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_survives_a_backend_that_fails_or_lies(name, mode, backend, policy):
    model, batch = build(name)
    before = fingerprint(model)
    function, exception, stage = FAILURES[backend]
    cfg = CompileConfig(enabled=True, backend=function, mode=mode, fail_policy=policy)
    if policy == "raise":
        with pytest.raises(exception):
            maybe_compile(model, cfg, logger, batch)
    else:
        assert maybe_compile(model, cfg, logger, batch) is model
    assert compile_report(model).stage == stage
    assert fingerprint(model) == before
    torch.compiler.reset()
    if policy == "fallback_eager":
        # The model trains on, eager.
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        arguments = (batch,) if isinstance(batch, torch.Tensor) else batch
        output = model(**arguments) if isinstance(arguments, dict) else model(*arguments)
        values = list(output.values()) if isinstance(output, dict) else output
        loss = values[-1] if isinstance(values, tuple | list) else values.square().mean()
        loss.backward()
        optimizer.step()
        assert fingerprint(model)["parameters"] != before["parameters"]
