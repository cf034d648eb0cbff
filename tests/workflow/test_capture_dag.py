"""Captures in the workflow: made where a device is, restored where only its record is, compared where both are."""

import json
import lzma
import shutil

import pytest
from lab import Lab

from minilab.device import cpu_device

CPU = cpu_device()
REPORT = "results/25/REPORT.md"
RECORD = "results/recorded/h200/25"
GPU_HERE = ("--config", f"devices={{measure: [h200, {CPU}], recorded: auto}}")
MODELS = ("tiny_head", "minigpt", "minigpt_train", "minigpt_swapped")


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """A fresh copy of the lab, whose record of the H200 holds nothing of stage 25."""
    shutil.rmtree(lab.root / RECORD, ignore_errors=True)
    return lab


def record(lab: Lab, path: str) -> None:
    """Give the H200 a record, as far as the DAG reads one."""
    file = lab.root / RECORD / path
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"provenance": {"sources": {"src/minicompile/models.py": "digest"}}}).encode()
    file.write_bytes(lzma.compress(text) if file.suffix == ".xz" else text)


def h200_jobs(lab: Lab, *arguments: str) -> set[str]:
    return {job for job in lab.jobs(REPORT, *arguments) if "results/25/" in job and "/h200/" in job}


def test_a_users_model_has_times_in_its_explorer(lab: Lab):
    lab.edit("config.yaml", lambda text: text.replace("models: {}", "models: {mine: {source: mine.py, factory: make}}"))
    (lab.root / "mine.py").write_text("")
    profiled = f"profile results/25/mine/{CPU}/profile.json"
    assert profiled in lab.jobs(f"results/25/mine/{CPU}/explorer.html")
    jobs = lab.jobs(REPORT)
    assert {profiled, f"profile_report results/25/mine/{CPU}/roofline.png"} <= jobs


def test_a_laptop_without_a_record_shows_no_real_gpu(lab: Lab):
    assert h200_jobs(lab) == set()


def test_a_laptop_restores_a_recorded_capture_and_explains_and_shows_it(lab: Lab):
    record(lab, "minigpt_train/capture.json.xz")
    record(lab, "minigpt_train/simulated_vs_real.json")
    assert h200_jobs(lab) == {
        "restore_of_model results/25/minigpt_train/h200/capture.json",
        "plain_files_triton results/25/minigpt_train/h200/fx_graph.py",
        "restore_of_model results/25/minigpt_train/h200/simulated_vs_real.json",
        "annotate results/25/minigpt_train/h200/KERNEL_ANNOTATION.md",
        "explorer results/25/minigpt_train/h200/explorer.html",
    }


def test_the_real_gpu_rather_than_the_simulated_one_stands_beside_the_cpu(lab: Lab):
    record(lab, "minigpt/capture.json.xz")
    beside = lab.snakemake("results/25/minigpt/explorer.html", "--dry-run").stdout
    assert "restore_of_model" in beside
    assert "simulated-h200" not in beside


def test_an_edit_of_what_captures_restores_anew(lab: Lab):
    record(lab, "minigpt_train/capture.json.xz")
    target = "results/25/minigpt_train/h200/capture.json"
    lab.pretend_built(target)
    assert lab.jobs(target) == set()
    lab.edit("src/minicompile/models.py")
    assert lab.jobs(target) == {f"restore_of_model {target}"}


def test_a_machine_with_the_gpu_captures_and_compares_whatever_the_record(lab: Lab):
    record(lab, "minigpt/capture.json.xz")
    jobs = h200_jobs(lab, *GPU_HERE)
    for model in MODELS:
        assert f"capture_triton results/25/{model}/h200/capture.json" in jobs
        assert f"simulated_vs_real results/25/{model}/h200/simulated_vs_real.json" in jobs
    assert not any(job.startswith("restore") for job in jobs)


def test_a_record_publishes_captures_comparisons_and_the_explorer_that_the_readme_opens(lab: Lab):
    jobs = lab.jobs("record", *GPU_HERE)
    wanted = {f"{rule} results/25/{model}/h200/{file}" for model in MODELS for rule, file in (
        ("capture_triton", "capture.json"), ("simulated_vs_real", "simulated_vs_real.json"),
    )}  # fmt: skip
    assert wanted | {"explorer results/25/minigpt/h200/explorer.html"} <= jobs
    assert not {job for job in jobs if "KERNEL_ANNOTATION" in job or "tiny_head/h200/explorer" in job}
