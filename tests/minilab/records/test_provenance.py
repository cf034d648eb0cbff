"""Digests of what a result was made with, and what makes it stale."""

from pathlib import Path

import pytest

from minilab import LabError
from minilab.device import cpu_device
from minilab.files import write_json
from minilab.records.provenance import provenance, stale_reasons
from minilab.records.restore import restore


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("kernel.cu").write_text("one")
    return Path("kernel.cu")


def test_provenance_names_device_versions_and_digests(source: Path):
    made = provenance([source], {"launches": 100})
    assert made["device"] == cpu_device()
    assert {"python", "torch", "numpy"} <= made["versions"].keys()
    assert list(made["sources"]) == ["kernel.cu"]
    assert stale_reasons(made, {"launches": 100}) == []


def test_what_makes_a_record_stale(source: Path):
    made = provenance([source], {"launches": 100, "seed": 1})
    assert stale_reasons(made, {"launches": 200, "seed": 1}) == ["parameter launches has changed"]
    source.write_text("two")
    assert stale_reasons(made) == ["kernel.cu has changed"]
    source.unlink()
    assert stale_reasons(made) == ["kernel.cu is gone"]


def bench_record(path: str) -> dict:
    made = provenance(["kernel.cu"], {"launches": 100})
    bench = {
        "provenance": made,
        "kernels": {"mine": made, "F.softmax": {**made, "sources": {}}},
        "rows": [{"kernel": "mine", "stale": False}, {"kernel": "F.softmax", "stale": False}],
    }
    write_json(path, bench)
    return bench


def test_bench_goes_stale_kernel_by_kernel(source: Path):
    bench_record("record.json")
    today = {"mine": {"launches": 100}, "F.softmax": {"launches": 100}}
    assert restore("record.json", {}, today, "fail")["restored"]["stale"] is False
    source.write_text("two")
    restored = restore("record.json", {}, today, "mark")
    assert {row["kernel"]: row["stale"] for row in restored["rows"]} == {"mine": True, "F.softmax": False}
    assert restored["restored"]["reasons"] == ["mine: kernel.cu has changed"]


def test_stale_records_are_refused_when_asked(source: Path):
    bench_record("record.json")
    source.write_text("two")
    with pytest.raises(LabError, match=r"record.json is stale \(mine: kernel.cu has changed\)"):
        restore("record.json", {}, {}, "fail")


def test_a_kernel_without_a_record_is_said(source: Path):
    bench_record("record.json")
    restored = restore("record.json", {}, {"newer": {}}, "mark")
    assert "newer: was not measured" in restored["restored"]["reasons"]


def test_a_record_must_fit_its_schema(source: Path):
    bench_record("record.json")
    with pytest.raises(LabError, match=r"record.json lacks the key 'ceiling'"):
        restore("record.json", {"required": ["ceiling"]}, {}, "mark")


def test_rows_measured_in_one_process_go_stale_together(source: Path):
    rows = [{"kernel": "mine", "stale": False}, {"kernel": "theirs", "stale": False}]
    write_json("contest.json", {"provenance": provenance([source], {}), "rows": rows})
    source.write_text("two")
    assert all(row["stale"] for row in restore("contest.json", {}, {}, "mark")["rows"])
