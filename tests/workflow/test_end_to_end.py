"""The lab really run, on the small configuration: what it leaves, what it refuses, what goes stale."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from declared_faults import fault
from forks import RUN_FIRST
from lab import ROOT, SMALL, Lab

from minilab.config.check import read_schema
from minilab.device import cpu_device
from minilab.files import read_json
from minilab.records.artefact import artefact
from minilab.records.checksums import write_sums
from minilab.records.store import check_artefact, write_artefact

CPU = cpu_device()
SCHEMAS = {
    "results/17/vocab.json": "vocab",
    "results/17/training.json": "training",
    "results/17/checkpoint.json": "checkpoint",
    "results/24/port.json": "port",
    "results/24/equivalence.json": "equivalence",
    f"results/24/{CPU}/kernel_swap.json": "kernel_swap",
    f"results/24/{CPU}/ceilings.json": "ceilings",
    f"results/24/{CPU}/allocation.json": "allocation",
    f"results/24/{CPU}/bench.json": "bench",
    f"results/24/{CPU}/proof/triton.json": "proof",
    f"results/24/{CPU}/proof/fused.json": "proof",
    f"results/24/{CPU}/proof/streaming.json": "proof",
    "results/24/h200/bench.json": "bench",
    "results/24/h200/ceilings.json": "ceilings",
    "results/24/h200/autotune.json": "autotune",
    "results/24/h200/kernel_swap.json": "kernel_swap",
}


@pytest.mark.parametrize("path", SCHEMAS)
def test_artefacts_fit_their_schemas(built: Lab, path: str):
    schema = read_schema(ROOT / f"schemas/{SCHEMAS[path]}.schema.yaml")
    check_artefact(read_json(built.root / path), schema, path)


def test_nothing_reruns(built: Lab):
    assert built.jobs(*SMALL) == set()


NO_TIMERS = """\
import threading

def refused(*arguments):
    raise RuntimeError("a timer is set")

threading.Timer = refused
"""


@fault("files are touched, a branch is switched and back, or keys change places", None, "Nothing is built again.")
@fault("a source is edited and has an old time, as rsync or tar leave it", None, "What follows from it is built again.")
def test_results_follow_content_and_not_clocks_nor_the_order_of_keys(built_copy: Lab):
    source, config = built_copy.root / "src/minimodel/training.py", built_copy.root / "config.yaml"
    text = source.read_text()
    for part in ("src", "scripts", "rules", "schemas", "results/17", "results/recorded"):
        for file in (built_copy.root / part).rglob("*"):
            file.touch()
    config.write_text(yaml.safe_dump(turned(yaml.safe_load(config.read_text())), sort_keys=False))
    assert built_copy.jobs(*SMALL) == set()
    source.write_text(text + "CHANGED = True\n")
    os.utime(source, (1_600_000_000, 1_600_000_000))
    assert "train results/17/training.npz" in built_copy.jobs(*SMALL)
    source.write_text(text)
    assert built_copy.jobs(*SMALL) == set()


def turned(value: object) -> object:
    """The same plain data, the keys of each mapping in the other order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(one) for one in value] if isinstance(value, list) else value


def test_a_configuration_that_trains_otherwise_and_times_otherwise_measures_again(built_copy: Lab):
    # what is timed waits for the training by an `ancient` input alone, and has reasons of its own all the same
    other = {"training": {"warmup": 19}, "bench": {"cpu": {"shapes": [[64, 600], [256, 600]]}}}
    other["roofline"] = {"headline": {"cpu": [256, 600]}}
    (built_copy.root / "other.yaml").write_text(yaml.safe_dump(other))
    jobs = {job.split()[0] for job in built_copy.jobs(*SMALL, "other.yaml")}
    assert {"train", "equivalence", "bench_on_cpu", "bench", "roofline"} <= jobs
    assert "ceilings" not in jobs  # which is of the machine alone


def test_jobs_are_weighed_when_one_has_ended_and_not_by_the_clock(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "no_timers.py").write_text(NO_TIMERS)
    monkeypatch.setenv(RUN_FIRST, str(tmp_path / "no_timers.py"))
    lab.snakemake("results/17/corpus.txt", *SMALL[-2:])
    lab.edit("Snakefile", lambda text: text.replace("workflow.scheduler.job_rate_limiter = None", "pass"))
    (lab.root / "results/17/corpus.txt").unlink()
    assert "a timer is set" in lab.snakemake("results/17/corpus.txt", *SMALL[-2:], check=False).stdout


def test_pictures(built: Lab):
    svg = (built.root / "results/24/roofline.svg").read_text()
    for text in (
        "NVIDIA H200",
        "(record of",
        "(measured on",
        "naive",
        "smem",
        "fused",
        "triton",
        "F.softmax",
        "numpy",
        "loop",
        "streaming",
    ):
        assert text in svg
    assert (built.root / "results/24/roofline.png").stat().st_size > 50_000
    assert (built.root / "results/17/loss.png").stat().st_size > 10_000


def test_manifest_is_filled(built: Lab):
    manifest = read_json(built.root / "results/24/manifest.json")
    assert manifest["experiment"] == "24-triton-and-pytorch"
    assert manifest["gpu"] == {"model": "NVIDIA H200", "compute_capability": "9.0"}
    for kernel in ("naive", "smem", "fused", "triton"):
        assert manifest["softmax_kernels"][kernel]["us_at_B512"] > 0
        assert manifest["softmax_kernels"][kernel]["frac_of_F_softmax"] > 0
    assert {"BLOCK", "num_warps"} <= manifest["softmax_kernels"]["triton"]["autotune_picked"].keys()
    assert manifest["torch_port"]["byte_equivalence_at_fp32_cpu"] == "passed"
    assert manifest["torch_port"]["kernel_swap_changes_top1_token"] is False


def test_every_log_is_kept(built: Lab):
    logs = {path.name for path in (built.root / "logs").rglob("*.log")}
    assert {"train.log", "equivalence.log", "bench_on_cpu.log", "triton.log", "restore_bench.log"} <= logs
    assert "held-out" in (built.root / "logs/17/train.log").read_text()


def test_a_run_names_two_files_of_a_job_and_none_of_what_its_libraries_hold(built: Lab):
    said = (built.root / "built.txt").read_text()
    assert re.search(r"^Job \d+: roofline: results/24/roofline.png, .*log: logs/24/", said, re.M)
    assert "    input: " not in said
    assert "leaked" not in said
    assert "RuntimeWarning" not in said


def renew_digests(record: Path) -> None:
    """Make a record that of today's sources, whatever it was measured with."""
    measured, bench = read_json(record), artefact("bench")
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    for kernel, made in measured["kernels"].items():
        made["sources"] = bench.digests(config, {"device": "h200", "kernel": kernel})
    write_artefact(record, measured)
    write_sums(record.parents[1], [record])


def edit_fused(lab: Lab) -> None:
    """Change what a CUDA C kernel's file holds, and nothing of what it computes."""
    lab.edit("src/minikernel/ops/cuda/fused.cu", lambda text: text + "__device__ int edited;\n")


def test_an_edited_kernel_turns_its_recorded_dot_hollow_and_no_other(built_copy: Lab):
    renew_digests(built_copy.root / "results/recorded/h200/24/bench.json")
    edit_fused(built_copy)
    built_copy.snakemake(*SMALL)
    rows = read_json(built_copy.root / "results/24/h200/bench.json")["rows"]
    assert {row["kernel"] for row in rows if row["stale"]} == {"fused"}
    assert "(stale)" in (built_copy.root / "results/24/roofline.svg").read_text()
    assert "*stale*" in (built_copy.root / "results/24/README.md").read_text()


def test_stale_records_can_be_refused(built_copy: Lab):
    edit_fused(built_copy)
    done = built_copy.snakemake(*SMALL, "--config", "records={stale: fail}", check=False)
    assert done.returncode
    assert "the record results/recorded/h200/24/bench.json is stale" in done.stdout
    assert not (built_copy.root / "results/24/h200/bench.json").exists()


def test_a_broken_port_stops_everything_downstream(built_copy: Lab):
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    again = [*SMALL, "--forcerun", f"results/24/{CPU}/proof/numpy.json"]
    assert any(job.startswith("bench_on_cpu ") for job in built_copy.jobs(*again))  # with a port that is whole
    weights = built_copy.root / "results/24/minigpt.safetensors"
    with safe_open(weights, "np") as opened:
        metadata = opened.metadata()
    arrays = load_file(weights)
    name = "blocks.0.attention.proj.weight"
    arrays[name] = np.ascontiguousarray(arrays[name].T)
    save_file(arrays, weights, metadata=metadata)
    done = built_copy.snakemake(*again, check=False)
    assert done.returncode
    assert name in done.stdout
    assert "transposed" in done.stdout
    assert not (built_copy.root / "results/24/equivalence.json").exists()
    assert ": bench_on_cpu:" not in done.stdout


def test_an_altered_record_is_refused_by_its_schema(built_copy: Lab):
    record = built_copy.root / "results/recorded/h200/24/ceilings.json"
    write_artefact(record, read_json(record) | {"copy_gb_per_s": "fast"})
    write_sums(record.parents[1], [record])
    done = built_copy.snakemake(*SMALL, check=False)
    assert done.returncode
    assert "results/recorded/h200/24/ceilings.json: copy_gb_per_s cannot be 'fast'" in done.stdout
