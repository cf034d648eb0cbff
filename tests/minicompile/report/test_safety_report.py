"""The report's section on compiling safely says what the health checks and the trainings found."""

import json
import logging
from pathlib import Path

import pytest
import torch
from safe_models import build, failing

from minicompile import CompileConfig, health
from minicompile.recompute import compile_health
from minicompile.report.safety_report import safety_entries, safety_section
from minilab.config.check import check_schema, read_schema
from minilab.records.verify import differences

pytestmark = pytest.mark.usefixtures("fresh_compiler")
SCHEMA = read_schema(Path(__file__).parents[3] / "schemas/compile_health.schema.yaml")
quiet = logging.getLogger("safety_report")


def checked(name: str, **fields) -> dict:
    """A `compile_health.json`, as the rule writes it."""
    model, batch = build(name)
    found = health(model, CompileConfig(**fields), batch, steps=2, logger=quiet)
    made = {"model": name, **found, "provenance": {"device": "cpu-x"}}
    check_schema(json.loads(json.dumps(made)), SCHEMA, "compile_health.json")
    return made


def row_of(text: str, model: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| `{model}`")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_healthy_compile_is_a_row_without_complaints():
    made = checked("mlp", backend="aot_eager")
    text = safety_section([made], [])
    assert row_of(text, "mlp")[1:4] == ["cpu-x", "healthy", "training"]
    assert "- `mlp`" not in text
    assert f"{max(made['benchmark']['report']['differences'].values()):.1e}" == row_of(text, "mlp")[-1]


def test_the_figures_follow_from_the_steps():
    made = checked("mlp", backend="eager")
    assert list(differences(made, compile_health(made))) == []
    made["benchmark"]["speedup"] += 1.0
    assert [found["where"] for found in differences(made, compile_health(made))] == ["benchmark.speedup"]


def test_what_failed_or_broke_is_complained_of():
    broken = checked("data_dependent", backend="eager")
    torch.compiler.reset()
    text = safety_section([checked("mlp", backend=failing), broken], [])
    assert row_of(text, "mlp")[2] == "**not healthy**"
    assert row_of(text, "mlp")[6] == "none"
    assert "- `mlp` on cpu-x: it is not compiled, since the stage forward failed" in text
    assert "- `data_dependent` on cpu-x: its graph breaks" in text


def test_a_record_that_is_stale_is_said_to_be():
    made = {**checked("mlp", backend="eager"), "restored": {"stale": True}}
    assert row_of(safety_section([made], []), "mlp")[1] == "cpu-x (stale)"


def test_nothing_tried_is_said_to_be_nothing():
    assert "No model was compiled with it" in safety_section([], [])
    assert safety_entries([], []) == {"compile_health": [], "port_training": []}


def test_the_manifest_holds_each_verdict():
    (row,) = safety_entries([checked("mlp", backend=failing)], [])["compile_health"]
    assert (row["model"], row["device"], row["healthy"], row["largest_difference"]) == ("mlp", "cpu-x", False, None)
    assert row["complaints"][0]["stage"] == "forward"
