"""Compiling safely in the workflow: checked and trained where a device is, restored where only its record is."""

import json

import pytest
from lab import EVERY_RULE, Lab

from minilab.device import cpu_device

CPU = cpu_device()
REPORT = "results/25/REPORT.md"
RULES = {"compile_health", "train_port", "training_picture", "restore_of_model"}
CHECKED = {
    f"compile_health results/25/{model}/{CPU}/compile_health.json"
    for model in ("tiny_head", "minigpt", "minigpt_train")
}
TRAINED = {f"train_port results/25/minigpt/{CPU}/training.json"}
DRAWN = {f"training_picture results/25/minigpt/{CPU}/training.png"}


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """A fresh copy of the lab, whose record of the H200 holds nothing of compiling safely."""
    for artefact in ("compile_health", "training"):
        for path in (lab.root / "results/recorded").glob(f"h200/25/*/{artefact}.json"):
            path.unlink()
    return lab


def compile_jobs(lab: Lab, *arguments: str) -> set[str]:
    return {job for job in lab.jobs(REPORT, *arguments) if job.split()[0] in RULES and "/25/" in job}


def record(lab: Lab, path: str) -> None:
    """Give the H200 a record, as far as the DAG reads one."""
    file = lab.root / "results/recorded/h200/25" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"provenance": {"sources": {"src/minicompile/models.py": "digest"}}}))


def test_a_laptop_checks_and_trains_on_its_cpu_alone(lab: Lab):
    jobs = compile_jobs(lab)
    assert jobs >= CHECKED | TRAINED | DRAWN
    assert not {job for job in jobs if "compile_health" in job or "training" in job} - CHECKED - TRAINED - DRAWN


def test_a_laptop_restores_what_is_recorded_and_draws_it(lab: Lab):
    record(lab, "minigpt/training.json")
    record(lab, "tiny_head/compile_health.json")
    jobs = compile_jobs(lab)
    assert "restore_of_model results/25/minigpt/h200/training.json" in jobs
    assert "restore_of_model results/25/tiny_head/h200/compile_health.json" in jobs
    assert "training_picture results/25/minigpt/h200/training.png" in jobs
    assert not {job for job in jobs if "/minigpt/h200/compile_health" in job}


def test_disabled_neither_checks_nor_trains(lab: Lab):
    lab.edit("config.yaml", lambda text: text.replace("enabled: true ", "enabled: false "))
    assert not compile_jobs(lab) & (CHECKED | TRAINED | DRAWN)


def test_words_are_written_again_and_nothing_is_measured(whole_copy: Lab):
    lab = whole_copy
    lab.edit("src/minicompile/report/templates/safety_25.md")
    lab.edit("src/minicompile/report/safety_report.py")
    assert compile_jobs(lab, *EVERY_RULE) == set()
    drawn = DRAWN | {"training_picture results/25/minigpt/h200/training.png"}  # the record's too
    lab.edit("src/minicompile/report/training_plot.py")
    assert compile_jobs(lab, *EVERY_RULE) == drawn
    lab.edit("src/minicompile/training/trainer.py")
    restored = {"restore_of_model results/25/minigpt/h200/training.json"}  # which says that it is stale now
    assert compile_jobs(lab, *EVERY_RULE) == TRAINED | restored | drawn
