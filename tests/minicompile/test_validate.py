"""scripts/validate_compile.py: a table and a status, by gates that can fail."""

import json
from pathlib import Path

import pytest
from forks import forks

from minicompile import validate as gates
from minicompile.safe import compile_cases
from minicompile.safe.compile_cases import Case
from minicompile.safe.compile_record import CompileReport

ROOT = Path(__file__).parents[2]


def test_the_script_passes_here_and_writes_its_verdicts(tmp_path):
    report = tmp_path / "gates.json"
    run = forks("compiler").run([ROOT / "scripts/validate_compile.py", f"output.report={report}"], ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert sum(line.startswith("pass  ") for line in run.stdout.splitlines()) == len(gates.GATES)
    verdicts = json.loads(report.read_text())["gates"]
    assert [verdict["gate"] for verdict in verdicts] == list(gates.GATES)


def test_a_safety_net_with_a_hole_fails_its_gates(monkeypatch):
    """A `maybe_compile` that believes every compile: the gates notice."""

    def trusting(model, cfg, logger, sample_batch=None, loss_fn=None):
        model.compile(backend=cfg.backend if callable(cfg.backend) else "eager")
        return model

    monkeypatch.setattr(compile_cases, "maybe_compile", trusting)
    some = ("fallback: a backend that is one per cent off", "shapes: stable across all buckets")
    monkeypatch.setattr(gates, "GATES", {name: gates.GATES[name] for name in some})
    verdicts = gates.run_gates()
    assert [verdict.passed for verdict in verdicts] == [False, False]
    assert gates.table(verdicts).count("FAIL") == 2


def test_a_model_that_comes_back_with_another_output_is_no_fallback(monkeypatch):
    def breaking(model, cfg, logger, sample_batch, loss_fn=None):
        model.forward = lambda ids: 1.01 * type(model).forward(model, ids)
        return model

    monkeypatch.setattr(compile_cases, "maybe_compile", breaking)
    monkeypatch.setattr(compile_cases, "compile_report", lambda model: CompileReport(stage="numerics"))
    with pytest.raises(AssertionError, match="another one than before"):
        gates.tried(Case("", fault="lies"))
