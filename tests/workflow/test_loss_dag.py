"""The head's loss in the workflow: measured on what is here, restored where a record holds both of its artefacts."""

import json
import shutil
from pathlib import Path

import pytest
from lab import Lab, copy_lab

from minilab.device import cpu_device

CPU = cpu_device()
GPU_HERE = ("--config", f"devices={{measure: [h200, {CPU}], recorded: auto}}")
ARTEFACTS = ("loss", "loss_correctness")
SOURCE = "src/minikernel/proof/loss/exact.py"
PAGES = {"loss_picture results/27/loss.png", "report_27 results/27/README.md"}
ON_THE_CPU = {
    f"loss_contest results/27/{CPU}/loss.json",
    f"loss_correctness results/27/{CPU}/loss_correctness.json",
}


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A copy of the lab whose record of the H200 holds nothing of stage 27. Not to be changed."""
    lab = copy_lab(tmp_path_factory.mktemp("unrecorded") / "lab")
    shutil.rmtree(lab.root / "results/recorded/h200/27", ignore_errors=True)
    return lab


@pytest.fixture(scope="module")
def recorded(unrecorded: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A copy of that lab with a record of stage 27, as far as the DAG reads one. Not to be changed."""
    lab = unrecorded.copy(tmp_path_factory.mktemp("recorded") / "lab")
    folder = lab.root / "results/recorded/h200/27"
    folder.mkdir(parents=True)
    for name in ARTEFACTS:
        (folder / f"{name}.json").write_text(json.dumps({"provenance": {"sources": {SOURCE: "digest"}}}))
    return lab


def of_stage_27(jobs: set[str]) -> set[str]:
    return {job for job in jobs if "results/27/" in job}


def test_a_laptop_measures_itself(unrecorded: Lab):
    assert of_stage_27(unrecorded.jobs()) == PAGES | ON_THE_CPU


def test_the_main_job_asks_for_none_of_it(unrecorded: Lab):
    assert of_stage_27(unrecorded.jobs("results/24/roofline.png")) == set()


def test_a_record_is_restored_beside_it(recorded: Lab):
    restored = {f"restore_loss results/27/h200/{name}.json" for name in ARTEFACTS}
    assert of_stage_27(recorded.jobs()) == PAGES | ON_THE_CPU | restored


def test_a_gpu_that_is_here_is_measured_alone(recorded: Lab):
    measured = {job.replace(CPU, "h200") for job in ON_THE_CPU}
    assert of_stage_27(recorded.jobs(*GPU_HERE)) == PAGES | ON_THE_CPU | measured
    text = recorded.snakemake("results/27/h200/loss.json", *GPU_HERE, "--dry-run").stdout
    assert "gpu=1" in text.partition("rule loss_contest")[2].partition("\n\n")[0]


@pytest.mark.parametrize(
    ("edited", "jobs"),
    [
        ("src/minikernel/measure/loss/contest.py", PAGES | {f"loss_contest results/27/{CPU}/loss.json"}),
        ("src/minikernel/report/templates/report_27.md", {"report_27 results/27/README.md"}),
    ],
)
def test_an_edit_redoes_what_depends_on_it(unrecorded: Lab, tmp_path: Path, edited: str, jobs: set[str]):
    lab = unrecorded.copy(tmp_path / "lab")
    lab.pretend_built("results/27/README.md")
    lab.edit(edited)
    assert of_stage_27(lab.jobs("results/27/README.md")) == jobs
