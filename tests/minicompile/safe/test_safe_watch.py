"""The watch counts graphs, breaks, recompiles and cache limits, each logged once with its reason."""

import json
import logging

import pytest
import torch
from safe_models import MLP, build, features, ids, minigpt
from torch import nn

from minicompile import CompileConfig, compile_report, maybe_compile

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger("watched")


def compiled(model: nn.Module, batch, **fields) -> nn.Module:
    return maybe_compile(model, CompileConfig(enabled=True, backend="eager", **fields), logger, batch)


def warnings(caplog) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "watched" and record.levelno == logging.WARNING
    ]


def test_a_recompile_is_counted_and_logged_with_its_reason(caplog):
    model = compiled(MLP(), features())
    model(features())
    assert compile_report(model).recompiles == []
    for _ in range(3):
        model(torch.ones(3, 8))
    (reason,) = compile_report(model).recompiles
    assert "size mismatch at index 0. expected 6, actual 3" in reason
    assert [line for line in warnings(caplog) if "recompile 1" in line and reason in line] == warnings(caplog)


def test_graph_breaks_are_logged_once_with_the_line(caplog):
    model, batch = build("data_dependent")
    compiled(model, batch)
    for _ in range(3):
        model(batch)
    (reason,) = compile_report(model).graph_breaks
    assert "safe_models.py:" in reason
    assert len(warnings(caplog)) == 1


def test_a_break_before_the_first_operation_is_counted_too():
    class Early(nn.Linear):
        def forward(self, x):
            torch._dynamo.graph_break()
            return super().forward(x)

    assert len(compile_report(compiled(Early(8, 4), features())).graph_breaks) == 1


def test_the_cache_limit_is_noticed(caplog):
    cfg = CompileConfig(enabled=True, backend="eager", dynamic=False)
    model = maybe_compile(MLP(), cfg, logging.getLogger("limited"), features())
    with torch._dynamo.config.patch(recompile_limit=2):
        for rows in (2, 3, 4, 5):
            model(torch.ones(rows, 8))
    report = compile_report(model)
    (limit,) = report.cache_limits
    assert (limit.limit, limit.value) == ("recompile_limit", 2)
    assert "reached recompile_limit = 2 and compiles no more" in str(limit)
    assert limit.function in report.ran_eager
    assert report.to_dict()["cache_limits"] == [vars(limit)]
    assert sum(r.name == "limited" and "recompile_limit" in r.getMessage() for r in caplog.records) == 1


def test_the_cache_limit_under_fullgraph_falls_back():
    model = compiled(MLP(), features(), dynamic=False, fullgraph=True)
    with torch._dynamo.config.patch(recompile_limit=1):
        for rows in (2, 3, 4):
            assert model(torch.ones(rows, 8)).shape == (rows, 4)
    assert compile_report(model).stage == "call"


def test_two_models_of_one_class_are_counted_apart():
    first, second = compiled(minigpt(), ids()), compiled(minigpt(), ids())
    first(ids())
    second(ids())
    second(ids(rows=3))
    assert (compile_report(first).graphs, len(compile_report(first).recompiles)) == (1, 0)
    assert (compile_report(second).graphs, len(compile_report(second).recompiles)) == (2, 1)


def test_the_report_is_plain_data_and_a_copy():
    model = compiled(MLP(), features())
    report = compile_report(model)
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    report.graph_breaks.append("mine")
    assert compile_report(model).graph_breaks == []


def test_a_model_that_was_never_compiled_says_so():
    report = compile_report(MLP())
    assert (report.compiled, report.stage) == (False, "none")
    assert "copy" in report.reason
