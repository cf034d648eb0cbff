"""The testing matrix with Inductor's own code: models, modes, dynamic. Caches on disk are shared and stay warm."""

import logging

import pytest
from safe_models import FAST, MODELS, build, fingerprint

from minicompile import CompileConfig, compile_report, maybe_compile, uncompile

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger(__name__)
SETTINGS = [
    ("default", None),
    ("default", False),
    ("default", True),
    ("reduce-overhead", None),
    ("max-autotune", None),
    ("max-autotune", False),
]


@pytest.mark.parametrize(("mode", "dynamic"), SETTINGS)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_compiles_with_inductor(name, mode, dynamic):
    model, batch = build(name)
    before = fingerprint(model)
    cfg = CompileConfig(enabled=True, mode=mode, dynamic=dynamic, options=FAST)
    assert maybe_compile(model, cfg, logger, batch) is model
    report = compile_report(model)
    assert report.compiled, report.reason
    assert not report.recompiles
    assert report.guards > 0
    uncompile(model)
    assert fingerprint(model) == before
