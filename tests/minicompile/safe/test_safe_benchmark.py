"""The benchmark reports both sides or the reason, and leaves the model as it was."""

import json
import logging

import pytest
import torch
from safe_models import MLP, build, failing, features, fingerprint, ids, minigpt

from minicompile import CompileConfig, benchmark, health
from minicompile.safe.compile_benchmark import count_tokens
from minilab import LabError

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def test_both_sides_are_timed_in_one_run_and_the_model_is_left():
    model = minigpt()
    optimizer = torch.optim.AdamW(model.parameters())
    before = fingerprint(model, optimizer)
    result = benchmark(model, CompileConfig(backend="aot_eager"), ids(), optimizer=optimizer, steps=4, warmup=1)
    assert fingerprint(model, optimizer) == before
    assert result.training
    assert result.tokens == 12
    for row in (result.eager, result.compiled):
        assert row.first_step_seconds > 0
        assert row.p20 <= row.step_seconds <= row.p80
        assert row.tokens_per_second == pytest.approx(12 / row.step_seconds)
        assert row.peak_bytes > 0
    assert result.compiled.first_step_seconds > result.compiled.step_seconds
    assert result.recompiles == 0
    assert json.loads(json.dumps(result.to_dict()))["speedup"] == result.speedup


def test_the_table_names_both_sides_or_the_reason():
    table = benchmark(MLP(), CompileConfig(backend="eager"), features(), steps=2, warmup=0).table()
    assert "| eager |" in table
    assert "| compiled |" in table
    failed = benchmark(MLP(), CompileConfig(backend=failing), features(), steps=2, warmup=0)
    assert failed.compiled is failed.speedup is failed.peak_bytes_delta is None
    assert "Not compiled: forward" in failed.table()


def test_inference_takes_no_training_step():
    model, batch = build("mlp")
    with torch.no_grad():
        assert not benchmark(model.eval(), CompileConfig(backend="eager"), batch, steps=1).training


def test_no_steps_are_refused():
    with pytest.raises(LabError, match="asked for 0 steps"):
        benchmark(MLP(), CompileConfig(), features(), steps=0)


@pytest.mark.parametrize(
    ("batch", "tokens"), [(torch.ones(3, 5).long(), 15), (torch.ones(3, 5), 3), ({"m": torch.ones(2), "i": ids()}, 12)]
)
def test_tokens_are_the_first_ids_or_the_rows(batch, tokens):
    assert count_tokens(batch) == tokens


def test_health_is_plain_data_with_complaints():
    quiet = logging.getLogger("quiet")
    good = health(MLP(), CompileConfig(backend="eager"), features(), steps=2, logger=quiet)
    assert good["healthy"] is True
    assert good["complaints"] == []
    json.dumps(good)
    bad = health(MLP(), CompileConfig(backend=failing), features(), steps=2, logger=quiet)
    assert bad["healthy"] is False
    (complaint,) = bad["complaints"]
    assert (complaint["code"], complaint["stage"]) == ("not_compiled", "forward")
    assert complaint["failure"]["code"] == "raised"
    assert complaint["failure"]["exception"] in bad["benchmark"]["report"]["exception"]
    assert bad["config"]["backend"] == "refusing"
    json.dumps(bad)
    model, batch = build("data_dependent")
    broken = health(model, CompileConfig(backend="eager"), batch, steps=2, logger=quiet)
    (reason, *_) = broken["benchmark"]["report"]["graph_breaks"]
    assert broken["complaints"][0] == {"code": "graph_break", "reason": reason}
