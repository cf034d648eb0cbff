"""The survey's jobs: measured where the ranks are, restored where only their record is."""

import json

import pytest
from lab import Lab

from minilab import plan
from minilab.device import cpu_device

CPU = cpu_device()
SURVEY = "results/25/DISTRIBUTED.md"
RECORD = "results/recorded/h200/25/distributed.json"


def survey_jobs(lab: Lab, *arguments: str) -> set[str]:
    return {job for job in lab.jobs(SURVEY, *arguments) if "/25/" in job}


def record(lab: Lab) -> None:
    """Give the H200 a record, as far as the DAG reads one."""
    path = lab.root / RECORD
    path.parent.mkdir(parents=True, exist_ok=True)
    sources = {"src/minicompile/distributed/patterns.py": "digest", "src/gone.py": "digest"}
    path.write_text(json.dumps({"provenance": {"sources": sources}}))


def without_record(lab: Lab) -> Lab:
    (lab.root / RECORD).unlink(missing_ok=True)
    return lab


def test_a_laptop_measures_its_cpu_alone(lab: Lab):
    jobs = survey_jobs(without_record(lab))
    assert jobs == {f"distributed results/25/{CPU}/distributed.json", f"survey {SURVEY}"}


def test_a_laptop_restores_the_recorded_gpus(lab: Lab):
    record(lab)
    assert "restore_distributed results/25/h200/distributed.json" in survey_jobs(lab)


def test_a_cluster_measures_its_gpus_whatever_the_record(lab: Lab):
    record(lab)
    jobs = survey_jobs(lab, "--config", f"devices={{measure: [h200, {CPU}], recorded: auto}}")
    measured = {f"distributed results/25/{device}/distributed.json" for device in ("h200", CPU)}
    assert jobs == measured | {f"survey {SURVEY}"}


def test_an_edit_measures_again_and_words_do_not(lab: Lab):
    without_record(lab).pretend_built(SURVEY)
    assert survey_jobs(lab) == set()
    lab.edit("src/minicompile/report/templates/survey_25.md")
    assert survey_jobs(lab) == {f"survey {SURVEY}"}
    lab.edit("src/minicompile/distributed/worker.py")
    assert survey_jobs(lab) == {f"distributed results/25/{CPU}/distributed.json", f"survey {SURVEY}"}


@pytest.mark.parametrize(("gpus_here", "measures"), [(0, True), (1, False), (2, True)])
def test_a_gpu_alone_measures_no_ranks(monkeypatch: pytest.MonkeyPatch, gpus_here: int, measures: bool):
    """None here is a cluster's login node, whose configuration names the GPUs of its nodes."""
    monkeypatch.setattr(plan, "gpu_devices", lambda: ["h200"] if gpus_here else [])
    monkeypatch.setattr(plan, "gpu_names", lambda: ("NVIDIA H200",) * gpus_here)
    config = {"distributed": {"cuda": {"ranks": [4, 2]}}}
    assert plan.Plan(config, ["h200"]).measured_together == (["h200"] if measures else [])
