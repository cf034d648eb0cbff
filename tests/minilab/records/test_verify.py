"""Records whose bytes, samples or sources are not what they were are told apart from fresh ones."""

import copy
from pathlib import Path

import pytest

from minilab.files import read_json, write_json
from minilab.records.checksums import NAME, read_sums, write_sums
from minilab.records.provenance import provenance
from minilab.records.verify import differences, table, verify

SCHEMA = {"type": "object", "required": ["provenance", "median_us"]}


def recount(artefact: dict) -> dict:
    return {"median_us": sorted(artefact["samples_us"])[1]}


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("kernel.cu").write_text("one")
    made = provenance(["kernel.cu"], {"launches": 3})
    path = tmp_path / "recorded/h200/24/timing.json"
    write_json(path, {"provenance": made, "median_us": 2.0, "samples_us": [3.0, 2.0, 1.0]})
    write_sums(tmp_path / "recorded/h200", [path])
    return path


def judged(path: Path, params: dict | None = None):
    return verify(path, path.parents[1], SCHEMA, params or {"launches": 3}, recount)


def test_a_published_record_is_fresh(record: Path):
    assert judged(record).state == "fresh"
    assert "| fresh | all of it holds |" in table([judged(record)])


def test_changed_sources_and_parameters_make_it_stale(record: Path):
    assert judged(record, {"launches": 5}).reasons == ["parameter launches has changed"]
    Path("kernel.cu").write_text("two")
    found = judged(record)
    assert (found.state, found.reasons) == ("stale", ["kernel.cu has changed"])


def test_an_edited_byte_makes_it_altered(record: Path):
    record.write_text(record.read_text() + " ")
    found = judged(record)
    assert (found.state, found.reasons) == ("altered", [f"its SHA-256 is not the one in {NAME}"])


def test_a_figure_that_its_samples_do_not_give_is_altered_even_with_a_new_digest(record: Path):
    write_json(record, {**read_json(record), "median_us": 1.5})
    write_sums(record.parents[1], [record])
    found = judged(record)
    assert (found.state, found.reasons) == ("altered", ["median_us is 1.5, and its samples give 2"])


def test_a_file_that_was_never_published_is_altered(record: Path):
    other = record.with_name("more.json")
    other.write_bytes(record.read_bytes())
    assert judged(other).state == "altered"


def test_a_record_of_an_older_lab_is_stale(record: Path):
    (record.parents[1] / NAME).unlink()
    old = read_json(record)
    del old["samples_us"]
    write_json(record, old)
    found = judged(record)
    assert found.state == "stale"
    assert found.reasons == [
        f"it was published without {NAME}",
        "it holds no 'samples_us', from which its figures follow",
    ]


def test_a_published_record_that_todays_schema_refuses_is_stale(record: Path):
    write_json(record, {"provenance": {}})
    write_sums(record.parents[1], [record])
    found = judged(record)
    assert found.state == "stale"
    assert "lacks the key 'median_us'" in found.reasons[0]


def test_publishing_one_stage_keeps_the_digests_of_the_other_and_forgets_files_that_are_gone(record: Path):
    folder = record.parents[1]
    other, gone = folder / "25/profile.json", folder / "24/gone.json"
    for path in (other, gone):
        write_json(path, {})
    write_sums(folder, [other, gone])
    gone.unlink()
    write_sums(folder, [other])
    assert set(read_sums(folder)) == {"24/timing.json", "25/profile.json"}


def test_differences_name_the_place_and_ignore_the_last_digits():
    stored = {"rows": [{"us": 1.0, "note": "x"}, {"us": 2.0}], "more": 1}
    again = copy.deepcopy(stored)
    again["rows"][0]["us"] *= 1 + 1e-13
    assert list(differences(stored, again)) == []
    again["rows"][1]["us"] = 2.1
    assert list(differences(stored, {"rows": again["rows"]})) == ["rows[1].us is 2, and its samples give 2.1"]
    assert list(differences(stored, {"rows": []}))
    assert list(differences({"us": None}, {"us": 1.0})) == ["us is None, and its samples give 1"]
