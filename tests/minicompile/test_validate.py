"""scripts/validate_compile.py: a table and a status, by gates that can fail."""

import json
from pathlib import Path

import pytest
import torch
from forks import forks

from minicompile import validate as gates

ROOT = Path(__file__).parents[2]


def test_the_script_passes_here_and_writes_its_verdicts(tmp_path):
    report = tmp_path / "gates.json"
    run = forks("compiler").run([ROOT / "scripts/validate_compile.py", f"output.report={report}"], ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("pass  ") == len(gates.GATES)
    verdicts = json.loads(report.read_text())["gates"]
    assert [verdict["gate"] for verdict in verdicts] == list(gates.GATES)


def test_a_safety_net_with_a_hole_fails_its_gates(monkeypatch, capsys):
    """A `maybe_compile` that believes every compile: the gates notice."""

    def trusting(model, cfg, logger, sample_batch=None):
        model.compile(backend=cfg.backend if callable(cfg.backend) else "eager")
        return model

    monkeypatch.setattr(gates, "maybe_compile", trusting)
    monkeypatch.setattr(gates, "GATES", {"wrong": gates.wrong_numbers, "shapes": gates.shape_stability})
    verdicts = gates.run_gates()
    assert [verdict.passed for verdict in verdicts] == [False, False]
    assert gates.table(verdicts).count("FAIL") == 2


@pytest.mark.parametrize("backend", [gates.lying])
def test_the_lying_backend_lies(backend):
    torch.compiler.reset()
    model = gates.Network()
    assert not torch.allclose(torch.compile(model, backend=backend)(gates.ids()), model(gates.ids()))
