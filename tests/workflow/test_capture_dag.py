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
    profiled = f"profile results/25/mine/{CPU}/profile_samples.json"
    assert profiled in lab.jobs(f"results/25/mine/{CPU}/explorer.html")
    jobs = lab.jobs(REPORT)
    assert {profiled, f"profile_report results/25/mine/{CPU}/roofline.png"} <= jobs


def test_a_laptop_without_a_record_shows_no_real_gpu(lab: Lab):
    assert h200_jobs(lab) == set()


def test_a_laptop_restores_a_recorded_capture_and_explains_and_shows_it(lab: Lab):
    record(lab, "minigpt_train/watched.json.xz")
    record(lab, "minigpt_train/watched_simulated.json.xz")
    assert h200_jobs(lab) == {
        "restore_of_model results/25/minigpt_train/h200/watched.json",
        "restore_of_model results/25/minigpt_train/h200/watched_simulated.json",
        "capture results/25/minigpt_train/h200/capture.json",
        "plain_files_triton results/25/minigpt_train/h200/fx_graph.py",
        "simulated_vs_real results/25/minigpt_train/h200/simulated_vs_real.json",
        "annotate results/25/minigpt_train/h200/KERNEL_ANNOTATION.md",
        "explorer results/25/minigpt_train/h200/explorer.html",
    }


def test_the_real_gpu_rather_than_the_simulated_one_stands_beside_the_cpu(lab: Lab):
    record(lab, "minigpt/watched.json.xz")
    beside = lab.snakemake("results/25/minigpt/explorer.html", "--dry-run").stdout
    assert "restore_of_model" in beside
    assert "simulated-h200" not in beside


def test_an_edit_of_what_captures_restores_anew(lab: Lab):
    record(lab, "minigpt_train/watched.json.xz")
    target = "results/25/minigpt_train/h200/watched.json"
    lab.pretend_built(target)
    assert lab.jobs(target) == set()
    lab.edit("src/minicompile/models.py")
    assert lab.jobs(target) == {f"restore_of_model {target}"}


def test_a_machine_with_the_gpu_captures_and_compares_whatever_the_record(lab: Lab):
    record(lab, "minigpt/watched.json.xz")
    jobs = h200_jobs(lab, *GPU_HERE)
    for model in MODELS:
        assert f"watch_triton results/25/{model}/h200/watched.json" in jobs
        assert f"watch_simulated results/25/{model}/h200/watched_simulated.json" in jobs
        assert f"simulated_vs_real results/25/{model}/h200/simulated_vs_real.json" in jobs
    assert not any(job.startswith("restore") for job in jobs)


def test_a_record_publishes_what_was_watched_and_nothing_that_is_concluded_from_it(lab: Lab):
    jobs = lab.jobs("record", *GPU_HERE)
    watched = (("watch_triton", "watched.json"), ("watch_simulated", "watched_simulated.json"))
    assert {f"{rule} results/25/{model}/h200/{file}" for model in MODELS for rule, file in watched} <= jobs
    assert not {
        job for job in jobs if job.split()[0] in ("capture", "simulated_vs_real", "explorer", "profile_figures")
    }


def test_no_gpu_and_no_record_of_its_capture(lab: Lab):
    done = lab.snakemake("results/25/minigpt/a100/watched.json", "--dry-run", check=False)
    assert done.returncode
    assert "There is no device a100 here and no record of it" in done.stdout
    assert "snakemake --cores 4 results/25/minigpt/a100/watched.json" in done.stdout
