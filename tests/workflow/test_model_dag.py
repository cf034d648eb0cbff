"""The whole model in the workflow: measured where a GPU is, restored where only its record is, else not asked for."""

import json
import shutil
from pathlib import Path

import pytest
from lab import Lab, copy_lab

from minilab.device import cpu_device

GPU_HERE = ("--config", f"devices={{measure: [h200, {cpu_device()}], recorded: auto}}")
RECORD = "results/recorded/h200/26/model.json"
TRAINING_RECORD = "results/recorded/h200/26/training.json"
SOURCE = "src/minikernel/measure/model/stamps.py"
PAGES = {
    "model_picture results/26/model.png",
    "timeline results/26/timeline.html",
    "report_26 results/26/README.md",
}


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A copy of the lab, whose record of the H200 holds nothing of stages 25 and 26. Not to be changed."""
    lab = copy_lab(tmp_path_factory.mktemp("unrecorded") / "lab")
    for stage in ("25", "26"):
        shutil.rmtree(lab.root / f"results/recorded/h200/{stage}", ignore_errors=True)
    return lab


@pytest.fixture(scope="module")
def recorded(unrecorded: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A copy of that lab with a record of stage 26, as far as the DAG reads one. Not to be changed."""
    lab = unrecorded.copy(tmp_path_factory.mktemp("recorded") / "lab")
    (lab.root / RECORD).parent.mkdir(parents=True)
    (lab.root / RECORD).write_text(json.dumps({"provenance": {"sources": {SOURCE: "digest"}}}))
    return lab


@pytest.fixture(scope="module")
def drawn(recorded: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A copy of that with all pages of stage 26 up to date; whoever changes something works on a copy."""
    lab = recorded.copy(tmp_path_factory.mktemp("drawn") / "lab")
    lab.pretend_built("results/26/README.md")
    assert lab.jobs("results/26/README.md") == set()
    return lab


def of_stage_26(jobs: set[str]) -> set[str]:
    return {job for job in jobs if "results/26/" in job}


def test_without_gpu_and_record_the_default_target_asks_for_none_of_it(unrecorded: Lab):
    assert of_stage_26(unrecorded.jobs()) == set()


def test_without_gpu_and_record_the_sentence_names_what_is_missing_and_what_to_run(unrecorded: Lab):
    done = unrecorded.snakemake("results/26/README.md", "--dry-run", check=False)
    assert done.returncode
    assert f"There is no device h200 here and no record of it in {RECORD}" in done.stdout
    assert "snakemake --cores 4 results/26/h200/model.json" in done.stdout


def test_a_laptop_restores_draws_and_tells(recorded: Lab):
    assert of_stage_26(recorded.jobs()) == PAGES | {"restore_model results/26/h200/model.json"}


def test_a_gpu_that_is_here_measures_what_was_recorded(recorded: Lab):
    assert of_stage_26(recorded.jobs(*GPU_HERE)) == PAGES | {
        "model_contest results/26/h200/model.json",
        "training_contest results/26/h200/training.json",
        "steps_picture results/26/training.png",
    }
    text = recorded.snakemake("results/26/h200/model.json", *GPU_HERE, "--dry-run").stdout
    assert "gpu=1" in text.partition("rule model_contest")[2].partition("\n\n")[0]


@pytest.mark.parametrize(
    ("edited", "jobs"),
    [
        ("src/minikernel/model/graph/kernels.cu", {"restore_model results/26/h200/model.json", *PAGES}),
        ("src/minikernel/report/model/page/timeline.js", PAGES - {"model_picture results/26/model.png"}),
        ("src/minikernel/report/templates/report_26.md", {"report_26 results/26/README.md"}),
        ("src/minikernel/report/model/data/floors.yaml", PAGES),
    ],
)  # fmt: skip
def test_an_edit_redoes_what_depends_on_it(drawn: Lab, tmp_path: Path, edited: str, jobs: set[str]):
    lab = drawn.copy(tmp_path / "lab")
    lab.edit(edited)
    assert of_stage_26(lab.jobs("results/26/README.md")) == jobs


def test_the_training_is_measured_here_or_restored_where_a_record_holds_it(recorded: Lab, tmp_path: Path):
    training = "results/26/h200/training.json"
    done = recorded.snakemake(training, "--dry-run", check=False)
    assert f"There is no device h200 here and no record of it in {TRAINING_RECORD}" in done.stdout
    text = recorded.snakemake(training, *GPU_HERE, "--dry-run").stdout
    assert "gpu=1" in text.partition("rule training_contest")[2].partition("\n\n")[0]
    lab = recorded.copy(tmp_path / "lab")
    made = {"provenance": {"sources": {"src/minikernel/model/train/train.cu": "digest"}}}
    (lab.root / TRAINING_RECORD).write_text(json.dumps(made))
    assert of_stage_26(lab.jobs()) == PAGES | {
        "restore_model results/26/h200/model.json",
        f"restore_model {training}",
        "steps_picture results/26/training.png",
    }
