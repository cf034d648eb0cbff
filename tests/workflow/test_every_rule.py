"""Every rule that needs no GPU, run once on the smallest configuration: the whole lab, and what is asked by name."""

import re
from pathlib import Path

import pytest
from lab import DISPATCH_TABLE, EVERY_RULE, PUBLISHED, ROOT, SMALL, Lab

from minilab.config.check import read_schema
from minilab.device import cpu_device
from minilab.files import read_json
from minilab.records.store import check_artefact, write_artefact

CPU = cpu_device()
NEEDS_A_GPU = {
    "bench_kernel",
    "autotune",
    "contest",
    "head",
    "watch_simulated",
    "gemv",
    "model_contest",
    "training_contest",
}  # stand-ins run some of them on the tests' cluster
RECORDED_MODEL = ROOT / "results/recorded/h200/26/model.json"
OF_THE_MODEL = {"restore_model", "model_picture", "timeline", "report_26"}  # which need its record
OF_THE_LOSS = {"restore_loss"}
RECORDED_TRAINING = RECORDED_MODEL.with_name("training.json")
RECORDED_LOSS = ROOT / "results/recorded/h200/27/loss.json"
SHIPPED_TABLE = "src/minikernel/ops/dispatch/tables/h200.json"  # by which `softmax` chooses


def ran(said: str) -> set[str]:
    """The rules whose jobs a run has started."""
    return set(re.findall(r"^Job \d+: (\w+)\b", said, re.M))


def test_every_rule_runs(asked: Lab, marked: Lab):
    rules = set(re.findall(r"^(\w+) \(", asked.snakemake("--list-rules").stdout, re.M))
    found = set().union(*(ran(path.read_text()) for lab in (asked, marked) for path in lab.root.glob("*.txt")))
    unrecorded = (set() if RECORDED_MODEL.exists() else OF_THE_MODEL) | (
        set() if RECORDED_LOSS.exists() else OF_THE_LOSS
    )
    unrecorded |= set() if RECORDED_TRAINING.exists() else {"steps_picture"}
    assert rules - found == NEEDS_A_GPU | unrecorded


def test_a_measurement_is_not_compared_with_itself(asked: Lab):
    said = (asked.root / "compare_records.txt").read_text()
    measuring = r"bench_on_cpu ceilings distributed loss_contest profile"
    assert re.search(f"nothing was measured since the record was published; .* --forcerun {measuring}`", said)


def test_a_measurement_is_compared_with_one_of_another_day(asked: Lab, tmp_path: Path):
    lab = asked.copy(tmp_path / "lab")
    record = lab.root / f"results/recorded/{CPU}/24/ceilings.json"
    older = read_json(record)
    older["provenance"]["date"] = "2026-01-02T03:04:05+00:00"
    write_artefact(record, older)
    said = lab.snakemake("compare_records", *EVERY_RULE, *PUBLISHED).stdout
    assert re.search(r"ceilings.json, measured on 2026-01-02: 0 of [1-9]\d* figures moved", said)
    assert f"results/24/{CPU}/bench.json is the measurement that" in said


def test_the_dispatch_table_is_the_one_that_the_recorded_tuning_gives(asked: Lab):
    assert (asked.root / DISPATCH_TABLE).read_bytes() == (ROOT / SHIPPED_TABLE).read_bytes()


def test_nothing_reruns(whole: Lab):
    assert whole.jobs(*EVERY_RULE) == set()


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (f"results/25/tiny_head/{CPU}/capture.json", "capture"),
        ("results/25/tiny_head/simulated-h200/capture.json", "capture"),
        (f"results/25/tiny_head/{CPU}/profile.json", "profile"),
        (f"results/25/tiny_head/{CPU}/compile_health.json", "compile_health"),
        (f"results/25/minigpt/{CPU}/training.json", "port_training"),
        (f"results/25/{CPU}/distributed.json", "distributed"),
    ],
)
def test_artefacts_of_stage_25_fit_their_schemas(whole: Lab, path: str, schema: str):
    check_artefact(read_json(whole.root / path), read_schema(whole.root / f"schemas/{schema}.schema.yaml"), path)


def test_the_small_run_is_part_of_it(whole: Lab):
    assert whole.jobs(*SMALL) == set()
