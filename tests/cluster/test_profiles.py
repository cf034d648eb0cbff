"""What the profiles promise: a login node without torch, allocations that are shared, GPU jobs that wait for others."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from declared_faults import check_says, fault
from lab import ROOT, copy_lab
from labs import CEILINGS, CONFIG, SMALL, lab_before_its_ceilings

from minilab.gpu_lock import gpu_lock

HEAVY = ("torch", "triton", "cupy")
SOON = ["--slurm-init-seconds-before-status-checks", "1"]
ON_A_GPU = ("prove", "ceilings", "autotune", "bench_kernel", "contest", "watch_triton", "profile", "distributed")


@pytest.fixture
def login_node(tmp_path: Path) -> dict[str, str]:
    """Environment variables under which the lab's copy is found first, and whatever needs a GPU cannot be imported."""
    for name in HEAVY:
        trap = tmp_path / f"traps/{name}.py"
        trap.parent.mkdir(exist_ok=True)
        trap.write_text(f"raise ImportError('a login node has no {name}')\n")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}/traps:{tmp_path}/lab/src"}


def test_the_plan_of_a_cluster_run_needs_no_torch(login_node: dict[str, str], tmp_path: Path):
    lab = copy_lab(tmp_path / "lab")
    python = {"cwd": lab.root, "env": login_node, "text": True, "capture_output": True}
    assert "a login node has no torch" in subprocess.run([sys.executable, "-c", "import torch"], **python).stderr
    plan = ["--dry-run", "--cores", "2", "--config", "devices={measure: [h200], recorded: auto}"]
    done = subprocess.run([sys.executable, "-m", "snakemake", *plan], **python)
    assert done.returncode == 0, done.stdout + done.stderr
    for rule in ON_A_GPU:
        assert f"rule {rule}:" in done.stdout


REFUSAL = "sbatch: error: Batch job submission failed: Requested time limit is invalid"


@fault("SLURM refuses what a group asks for", f"Group model: SLURM sbatch failed...{REFUSAL}...", "Nothing is queued.")
def test_what_slurm_refuses_of_a_group_is_on_the_terminal(tmp_path: Path, says: str):
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="no SLURM plugin: pip install -e '.[slurm]'")
    lab, slurm = copy_lab(tmp_path / "lab"), tmp_path / "slurm"
    slurm.mkdir()
    for program in ("sbatch", "sacct", "sacctmgr", "sshare", "scancel", "squeue", "sinfo", "scontrol"):
        said = f'echo "$@" >> {tmp_path}/asked\necho "{REFUSAL}" >&2\nexit 1\n' if program == "sbatch" else ""
        (slurm / program).write_text(f"#!/bin/sh\n{said}")
        (slurm / program).chmod(0o755)
    # an account whose leading zero has to arrive
    lab.edit("profiles/slurm/config.yaml", lambda text: text.replace('slurm_account="none"', 'slurm_account="0070412"'))
    command = [
        "--workflow-profile",
        "profiles/slurm",
        "--retries",
        "0",
        *SOON,
        *CONFIG,
        "--",
        "results/17/training.json",
    ]
    own = {**os.environ, "PYTHONPATH": str(lab.root / "src"), "PATH": f"{slurm}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *command], cwd=lab.root, env=own, text=True, capture_output=True
    )
    assert done.returncode
    said = done.stdout + done.stderr
    assert "Error in group model" in said  # else Snakemake says it by itself
    check_says(said, says)
    assert "-A 0070412 " in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("profile", ["default", "gpu"])
def test_without_cores_a_command_has_all_of_them(tmp_path: Path, profile: str):
    lab = copy_lab(tmp_path / "lab")
    command = [sys.executable, "-m", "snakemake", "--workflow-profile", f"profiles/{profile}", "results/17/corpus.txt"]
    own = {**os.environ, "PYTHONPATH": str(lab.root / "src")}
    done = subprocess.run(command, cwd=lab.root, env=own, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (lab.root / "results/17/corpus.txt").exists()


def test_a_lab_beside_the_one_that_is_installed_is_refused_in_a_sentence(tmp_path: Path):
    lab = copy_lab(tmp_path / "lab")
    other = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", "results/17/corpus.txt"]
    done = subprocess.run(command, cwd=lab.root, env=other, text=True, capture_output=True)
    assert done.returncode
    said = done.stdout + done.stderr
    assert re.search(r"kernels\.naive names \S+/lab/src/.*another copy.*`pip install -e \.` in this folder", said)


def profile(name: str) -> dict:
    return yaml.safe_load((ROOT / f"profiles/{name}/config.yaml").read_text())


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "profiles").iterdir()))
def test_every_key_of_a_profile_has_a_comment_above_it(name: str):
    lines = (ROOT / f"profiles/{name}/config.yaml").read_text().splitlines()
    for key in profile(name):
        [line] = [number for number, text in enumerate(lines) if text.startswith(f"{key}:")]
        assert lines[line - 1].startswith("# "), f"profiles/{name}: {key}"


def rules() -> dict[str, str]:
    """The text of every rule, by name."""
    texts = [path.read_text() for path in (ROOT / "rules").glob("*.smk")]
    return {
        name: text for rules in texts for name, text in re.findall(r"^rule (\w+):\n((?:    .*\n|\n)*)", rules, re.M)
    }


def gpu_rules_of_the_plan() -> dict[str, tuple[int, int]]:
    """The GPUs and minutes that each rule of the whole lab asks for, where a plan for an H200 gives it a GPU."""
    plan = ["--dry-run", "--forceall", "--cores", "2", "--config", "devices={measure: [h200], recorded: auto}"]
    done = subprocess.run([sys.executable, "-m", "snakemake", *plan], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = re.findall(r"^rule (\w+):\n(?:    .*\n)*?    resources: .*?\bgpu=(\d+), runtime=(\d+)", done.stdout, re.M)
    asked: dict[str, tuple[int, int]] = {}
    for rule, gpus, minutes in jobs:
        if int(gpus):
            asked[rule] = max(asked.get(rule, (0, 0)), (int(gpus), int(minutes)))
    return asked


def test_what_is_measured_on_a_gpu_within_five_minutes_shares_its_allocation():
    grouped = dict(entry.split("=") for entry in profile("slurm")["groups"])
    together = {rule for rule, group in grouped.items() if group == "{device}"}
    asked = gpu_rules_of_the_plan()
    assert len(asked) > 10
    assert {rule for rule, (gpus, minutes) in asked.items() if gpus == 1 and minutes <= 5} == together & {*asked}
    assert {*grouped} - {*rules()} == {"watch_triton"}  # which inherits from `watch`
    text = (ROOT / "profiles/slurm/config.yaml").read_text()
    of_one_model = {*re.findall(r"^#   (\w+): (?:&|\*)model", text, re.M)}
    assert of_one_model == {*asked} | together - {"watch"}  # `watch` itself runs on a CPU


def test_every_job_that_compiles_on_a_gpu_has_caches_of_its_own():
    scripts = {re.search(r'"\.\./(scripts/\w+\.py)"', text)[1] for text in rules().values() if "\n        gpu=" in text}
    sharing = {script for script in scripts if not any("with own_caches()" in text for text in with_imports(script))}
    assert sharing == {"scripts/distributed.py"}  # which compiles nothing


def with_imports(script: str) -> Iterator[str]:
    """The text of a script, and of each module of the lab's that it imports from."""
    yield (text := (ROOT / script).read_text())
    for module in re.findall(r"^from (\S+) import", text, re.M):
        if (path := ROOT / "src" / f"{module.replace('.', '/')}.py").exists():
            yield path.read_text()


def test_every_rule_says_what_memory_and_time_it_takes():
    assert len(rules()) > 30
    assert [name for name, text in rules().items() if not {"mem_mb=", "runtime="} <= {*re.findall(r"\w+=", text)}] == []


def test_on_a_workstation_a_gpu_job_waits_for_those_of_other_workflows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    lab, lock = lab_before_its_ceilings(tmp_path / "lab"), tmp_path / "gpu.lock"
    lab.edit("profiles/gpu/config.yaml", lambda text: text.replace("/tmp/minigpt-lab-gpu.lock", str(lock)))
    log = lab.root / "logs/24/stand-in-gpu/ceilings.log"
    with ThreadPoolExecutor(1) as background:
        with gpu_lock(lock):
            run = background.submit(lab.snakemake, CEILINGS, *SMALL, *CONFIG, "--workflow-profile", "profiles/gpu")
            while not run.done() and not (log.exists() and log.read_text()):
                time.sleep(0.1)
            assert f"another job on this machine holds the GPU ({lock})" in log.read_text()
            assert not (lab.root / CEILINGS).exists()
        run.result()
    assert (lab.root / CEILINGS).exists()
