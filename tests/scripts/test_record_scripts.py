"""What is said of records and of builds, by the scripts alone, from plain arguments."""

import json
import subprocess
from pathlib import Path

import pytest
from forks import script

from minikernel.measure.ceilings import Rate, ceilings_of
from minilab.files import read_json, write_json
from minilab.records.checksums import write_sums

ROOT = Path(__file__).parents[2]


def ceilings(path: Path, samples_us: list[float], date: str = "2026-01-02T03:04:05+00:00") -> Path:
    """The ceilings of a device that stands in for a GPU."""
    rates = {name: [] for name in ("tf32_tflop_per_s", "bf16_tflop_per_s")}
    rates |= {name: [Rate(8000, samples_us)] for name in ("copy_gb_per_s", "l2_gb_per_s", "fp32_tflop_per_s")}
    made = {"device": "stand-in", "date": date, "versions": {}, "hardware": {}, "sources": {}, "params": {}}
    samples = {name: [vars(rate) for rate in measured] for name, measured in rates.items()}
    figures = {**ceilings_of(rates), "samples": samples, "cache_bytes": 1024, "datasheet": None}
    write_json(path, {"provenance": made, **figures})
    return path


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = ceilings(tmp_path / "recorded/stand-in/24/ceilings.json", [4.0, 4.1, 3.9] * 20)
    picture = path.with_name("roofline.svg")
    picture.write_text("<svg/>")
    write_sums(path.parents[1], [path, picture])
    return path


def verified(record: Path) -> subprocess.CompletedProcess:
    today = json.dumps({str(record): {}})
    return script("verify_records", f"params.recorded={record.parents[2]}", f"params.today={today}")


def test_a_fresh_record_is_verified(record: Path):
    done = verified(record)
    assert done.returncode == 0, done.stderr
    assert f"| {record} | fresh |" in done.stderr
    assert "2 fresh, 0 stale, 0 altered" in done.stderr


def test_an_altered_figure_ends_the_verification_with_its_name(record: Path):
    write_json(record, {**read_json(record), "copy_gb_per_s": 2.5})
    write_sums(record.parents[1], [record])
    record.with_name("roofline.svg").write_text("<svg></svg>")
    done = verified(record)
    assert done.returncode == 1
    assert "| altered | copy_gb_per_s is 2.5, and its samples give 2 |" in done.stderr
    assert "0 fresh, 0 stale, 2 altered" in done.stderr
    assert f"Error: altered since they were published: {record}, " in done.stderr


def compared(record: Path, measured: Path) -> subprocess.CompletedProcess:
    return script("compare_records", f'params.records=["{record}"]', f'input.artefacts=["{measured}"]')


def test_only_what_moved_beyond_the_noise_is_said(record: Path, tmp_path: Path):
    again = ceilings(tmp_path / "again.json", [4.0, 4.15, 3.9] * 20, "2026-02-02")
    assert "0 of 3 figures moved beyond the noise of both" in compared(record, again).stderr
    slower = ceilings(tmp_path / "slower.json", [5.0, 5.1, 4.9] * 20, "2026-02-02")
    done = compared(record, slower)
    assert done.returncode == 0
    assert "3 of 3 figures moved beyond the noise of both" in done.stderr
    assert "copy_gb_per_s, microseconds of launch 0: 4 -> 5 (+25.0%" in done.stderr


def test_a_record_is_not_compared_with_itself(record: Path):
    done = compared(record, record)
    assert done.returncode == 1
    assert "is the very measurement that" in done.stderr
    assert "--forcerun" in done.stderr


def test_two_builds_are_locked_and_their_drift_explained(tmp_path: Path):
    result, source = tmp_path / "weights.npz", tmp_path / "training.py"
    made = json.dumps({str(result): {"sources": [str(source)], "config": ["training"], "of": []}})
    for build, seed in (("before", 42), ("after", 43)):
        source.write_text("the same")
        result.write_text(f"weights of {seed}")
        done = script(
            "lock", f"params.config={{training: {{seed: {seed}}}}}", f"params.made={made}",
            f'input.sources=["{source}"]', "input.graphs=[]", "input.autotunes=[]",
            f"output.lock={tmp_path}/{build}.json",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    done = script(
        "explain_drift", f"input.before={tmp_path}/before.json", f"input.after={tmp_path}/after.json",
        f"output.text={tmp_path}/drift.md",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "drift.md").read_text()
    assert text.count("\n- ") == 2
    assert f"- {result} has changed: config training.seed: 42 -> 43" in text
