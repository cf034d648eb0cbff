"""The lab on a real SLURM: who holds the GPU and when, a node that dies, a job that fails, many students at once.

One run of the main job through profiles/slurm shares the cluster with ten clones, each of which runs what is left of it
within an allocation of its own, so that the one GPU is always asked for.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from forks import RUN_FIRST
from lab import Lab, copy_lab
from labs import CEILINGS, CONFIG, GPU, SCRIPTS, SMALL, lab_before_its_ceilings, lab_with_stand_ins
from slurm import Cluster

from minilab.files import read_json
from minilab.records.store import is_edited

pytestmark = pytest.mark.slow

CLONES = 10
GPU_RULES = {*SCRIPTS} - {"watch"} | {"watch_triton"}  # the rule of a GPU's compile shares the CPU's script
TARGETS = ["results/24/roofline.png", "results/24/bandwidth.png"]  # the second one is the contest's
TARGETS += [f"results/24/{GPU}/kernel_swap.json", f"results/25/tiny_head/{GPU}/watched.json"]
DETERMINISTIC = [f"results/17/{name}" for name in ("corpus.txt", "training.npz", "checkpoint.npz")]
DETERMINISTIC += ["results/24/minigpt.safetensors"]
ON_SLURM = ["--workflow-profile", "profiles/slurm", "--slurm-init-seconds-before-status-checks", "1"]
ON_SLURM += ["--slurm-status-command", "squeue"]  # this SLURM keeps no accounts, which sacct would ask


@dataclass
class Day:
    """What a busy day on the cluster left behind."""

    lab: Lab  # of the run through the profile
    said: str  # by its Snakemake
    jobs: list[dict[str, str]]  # SLURM's records of that run
    clones: list[Lab]
    holders: list[dict[str, str]]  # SLURM's records of every job that was given a GPU, whoever asked for it


def name_the_model(lab: Lab) -> Lab:
    """Adapt the lab's profile to a cluster with a GPU of the model h200, as its comments say."""

    def uncommented(profile: str) -> str:
        above, commented = profile.split("# set-resources:\n")
        commented, below = commented.split("\n\n", 1)
        models = re.sub("^# ", "", commented, flags=re.M).replace("== 'h200'", f"== '{GPU}'")
        return f"{above}set-resources:\n{models}\n\n{below}"

    lab.edit("profiles/slurm/config.yaml", uncommented)
    return lab


@pytest.fixture(scope="module", autouse=True)
def quick_polls():
    """Each Snakemake of this file asks SLURM every second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(RUN_FIRST, str(Path(__file__).with_name("quick_polls.py")))
        yield


@pytest.fixture(scope="module")
def day(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Day:
    """A run of the main job, in which the node that trains the model dies, and ten clones' runs meanwhile."""
    folder = tmp_path_factory.mktemp("labs")
    lab = name_the_model(lab_with_stand_ins(folder / "lab"))
    with ThreadPoolExecutor() as background:
        whole = background.submit(lab.snakemake, *TARGETS, *SMALL, *CONFIG, *ON_SLURM)
        cluster.wait(lambda: whole.done() or (lab.root / "logs/17/train.log").exists(), "the training to start")
        assert not whole.done(), whole.result().stdout
        cluster.kill_node(cluster.jobs()[0]["NodeList"])

        clones = [lab_before_its_ceilings(folder / "clone-0")]
        for number in range(1, CLONES):
            clones.append(Lab(folder / f"clone-{number}"))
            shutil.copytree(clones[0].root, clones[number].root, copy_function=shutil.copy2)
        for clone in clones:
            submit(clone)
        cluster.wait(lambda: not unfinished(cluster.jobs()) and whole.done(), "the main job and the clones", 1500)
        said = whole.result().stdout
    recorded = cluster.jobs()
    failed = [job for job in recorded[1:] if job["JobState"] != "COMPLETED"]
    assert not failed, "\n".join(f"{job}\n{tail(job)}" for job in failed)
    own = [job for job in recorded if job["WorkDir"] == str(lab.root)]
    return Day(lab, said, own, clones, [job for job in recorded if job["GRES"]])


def tail(job: dict[str, str]) -> str:
    """The end of what a job has written."""
    log = Path(job.get("StdOut", ""))
    return log.read_text()[-2000:] if log.is_file() else "it has written nothing"


def unfinished(jobs: list[dict[str, str]]) -> list[dict[str, str]]:
    """Those that SLURM has yet to end."""
    return [job for job in jobs if job["JobState"] in ("PENDING", "RUNNING", "COMPLETING")]


def submit(clone: Lab) -> None:
    """Ask for one allocation that holds a GPU from the beginning of a whole small run to its end."""
    work = shlex.join([sys.executable, "-m", "snakemake", CEILINGS, *SMALL, *CONFIG, "--cores", "1"])
    asked = ["--partition=gpu", "--gpus=h200:1", "--mem=1000M", f"--chdir={clone.root}", "--output=slurm.log"]
    environment = {**os.environ, "PYTHONPATH": str(clone.root / "src")}
    subprocess.run(["sbatch", "--quiet", *asked, f"--wrap={work}"], env=environment, check=True)


def turns(lab: Lab) -> list[dict]:
    """What the lab's GPU jobs say of themselves, in the order in which they ran."""
    return sorted((read_json(path) for path in (lab.root / "turns").rglob("*.json")), key=lambda turn: turn["begin"])


def test_a_node_that_dies_leads_to_a_retry_that_asks_for_more(day: Day):
    died, again = day.jobs[:2]
    assert died["JobState"] == "NODE_FAIL"
    assert "Error in group model" in day.said
    assert again["JobState"] == "COMPLETED"
    assert again["NodeList"] != died["NodeList"]
    assert "mem=2000M" in died["TRES"]
    assert "mem=4000M" in again["TRES"]


def test_the_results_are_those_of_an_undisturbed_run(day: Day, tmp_path: Path):
    alone = copy_lab(tmp_path / "lab")
    alone.snakemake("results/24/minigpt.safetensors", *SMALL)
    for path in DETERMINISTIC:
        assert (day.lab.root / path).read_bytes() == (alone.root / path).read_bytes(), path


def test_only_gpu_rules_held_the_gpu_the_short_ones_in_one_allocation(day: Day):
    held = "gpu:h200:1(IDX:0)"
    assert [(job["Partition"], job["GRES"]) for job in day.jobs] == [
        ("cpu", ""),  # the model, on the node that died
        ("cpu", ""),  # the model, again
        ("gpu", held),  # proofs, tuning, benchmarks, compiles
        ("gpu", held),  # the contest
        ("cpu", ""),  # the pictures
    ]
    ran = turns(day.lab)
    assert {turn["rule"] for turn in ran} == GPU_RULES
    assert {turn["rule"] for turn in ran if turn["job"] == day.jobs[2]["JobId"]} == GPU_RULES - {"contest"}
    assert {turn["rule"] for turn in ran if turn["job"] == day.jobs[3]["JobId"]} == {"contest"}
    assert all(before["end"] <= after["begin"] for before, after in pairwise(ran))


def test_no_two_allocations_held_the_gpu_at_one_time(day: Day):
    assert len(day.holders) == 2 + CLONES
    held = sorted(tuple(datetime.fromisoformat(job[f"{end}Time"]) for end in ("Start", "End")) for job in day.holders)
    assert all(before[1] <= after[0] for before, after in pairwise(held))


def test_clones_share_no_cache_and_leave_nothing_behind(day: Day):
    labs = [day.lab, *day.clones]
    folders = [folder for lab in labs for turn in turns(lab) for folder in turn["caches"].values()]
    assert len(folders) == len(set(folders)) > 4 * CLONES
    assert all(Path(folder).is_relative_to(tempfile.gettempdir()) for folder in folders)  # on the node, not shared
    assert not any(Path(folder).exists() for folder in folders)
    measured = [read_json(lab.root / CEILINGS) for lab in labs]
    assert not any(map(is_edited, measured))
    for one in measured:  # the same but for the second in which each was made, and the digest of all that
        del one["provenance"]["date"], one["provenance"]["content_sha256"]
    assert all(one == measured[0] for one in measured)
    assert [path for lab in labs for path in (lab.root / "results").rglob(".*")] == []  # no temporary file


def test_a_failing_job_reports_its_log(day: Day):
    impossible = "equivalence: {seed: 42, shape: [2, 16], atol: 1.0e-30, rtol: 1.0e-30}\n"
    day.lab.edit("tests/small.yaml", lambda text: text + impossible)
    target = "results/24/equivalence.json"
    failed = day.lab.snakemake(target, *SMALL, *CONFIG, *ON_SLURM, "--retries", "0", check=False)
    assert failed.returncode
    logs = re.findall(r"log: (\S+) \(check log file", failed.stdout)
    assert "logs/24/equivalence.log" in logs
    [refusal] = re.findall("^Error: .*", (day.lab.root / "logs/24/equivalence.log").read_text(), re.M)
    [slurm_log] = {log for log in logs if "slurm_logs" in log}
    assert refusal in Path(slurm_log).read_text()
