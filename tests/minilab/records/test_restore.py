"""A record is brought back only as it was published, marked with what has changed since."""

import os
import subprocess
from pathlib import Path

import pytest
from recorded import CEILINGS, DEVICE, ceilings, record

from minilab import LabError
from minilab.config.check import read_schema
from minilab.files import read_json, sha256, write_json
from minilab.records.artefact import artefact, artefact_recorded_at
from minilab.records.checksums import NAME, SIGNATURE, SIGNERS, sign, signature_of, write_sums
from minilab.records.current import refuse_results_of_another_configuration
from minilab.records.publish import publish
from minilab.records.restore import restore, todays
from minilab.records.sources.digests import digest_of_code
from minilab.records.store import check_artefact, is_edited, read_artefact, write_artefact
from minilab.records.verify import signed
from minilab.records.words import worded

TODAY = todays(CEILINGS, {}, {"device": DEVICE})


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return record(tmp_path)


def restored(path: Path, today=TODAY, on_stale: str = "mark") -> dict:
    return restore(path, CEILINGS, path.parents[1], today, on_stale)


def test_a_record_says_where_it_comes_from_and_that_nobody_signed_it(published: Path):
    found = restored(published)["restored"]
    expected = {"from": str(published), "sha256": sha256(published), "stale": False, "reasons": [], "signed_by": None}
    assert found == expected


def test_a_record_of_other_sources_is_stale_and_can_be_refused(published: Path):
    today = {"": ({}, {**TODAY[""][1], "scripts/ceilings.py": "0" * 64})}
    found = restored(published, today)["restored"]
    assert found["stale"]
    assert found["reasons"] == [{"code": "source_changed", "path": "scripts/ceilings.py"}]
    assert [worded(reason, language) for reason in found["reasons"] for language in ("en", "es")] == [
        "scripts/ceilings.py has changed",
        "scripts/ceilings.py ha cambiado",
    ]
    with pytest.raises(LabError, match=r"is stale \(scripts/ceilings.py has changed\) and records.stale is 'fail'"):
        restored(published, today, "fail")


@pytest.mark.parametrize("sums", [None, "", "0" * 64 + "  24/ceilings.json\n"])
def test_a_record_whose_digests_are_missing_or_others_is_refused(published: Path, sums: str | None):
    file = published.parents[1] / NAME
    file.unlink() if sums is None else file.write_text(sums)
    with pytest.raises(LabError, match=r"its SHA-256 is not the one in .*git checkout"):
        restored(published)


def test_an_edited_record_with_renewed_digests_is_refused(published: Path):
    write_json(published, {**read_json(published), "copy_gb_per_s": 9000.0})
    write_sums(published.parents[1], [published])
    with pytest.raises(LabError, match="is not what was measured"):
        restored(published)


def test_a_restored_file_that_is_edited_afterwards_is_refused_by_whoever_reads_it(published: Path, tmp_path: Path):
    path = tmp_path / "results/24" / DEVICE / "ceilings.json"
    write_artefact(path, restored(published))
    assert read_artefact(path)["restored"]["from"] == str(published)
    edited = read_json(path)
    edited["copy_gb_per_s"] = 9000.0
    write_json(path, edited)
    with pytest.raises(LabError, match=r"is not what was written.*build it again with `snakemake"):
        read_artefact(path)


@pytest.mark.parametrize("content", ["{}", "null", "[]", '{"provenance": {}}', '{"provenance": null}', "7"])
def test_json_that_is_no_artefact_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "ceilings.json"
    path.write_text(content)
    with pytest.raises(LabError, match=r"is not what was written|where a JSON object is needed"):
        read_artefact(path)


def test_an_artefact_of_another_configuration_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    params = {"seed": 1, "atol": 1e-5}
    write_artefact("results/24/equivalence.json", {"provenance": {"params": params}})
    assert read_artefact("results/24/equivalence.json", {"equivalence": params})
    with pytest.raises(LabError, match=r"equivalence.json was made with another configuration \(seed is another now\)"):
        read_artefact("results/24/equivalence.json", {"equivalence": {**params, "seed": 2}})


def test_results_that_snakemake_has_no_notes_on_are_refused_when_what_they_were_made_of_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("a = 1\n")
    made = {"params": {"seed": 1}, "opened": {"helper.py": digest_of_code("helper.py")}}
    write_artefact("results/24/equivalence.json", {"provenance": made})
    refuse_results_of_another_configuration({"equivalence": {"seed": 1}})
    for seed, helper in ((2, "a = 1\n"), (1, "a = 2\n")):
        (tmp_path / "helper.py").write_text(helper)
        with pytest.raises(LabError, match=r"^results/24/equivalence\.json: made with another configuration than this"):
            refuse_results_of_another_configuration({"equivalence": {"seed": seed}})


def test_a_benchs_kernels_are_held_against_the_configuration_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    timing = {"dtype": "float32", "seed": 1, "launches": 3}
    made = {"params": {**timing, "kernel": "naive", "entry": None}}
    write_artefact("results/24/cpu-x/bench.json", {"provenance": {"params": {}}, "kernels": {"naive": made}})
    config = {"kernels": {}, "bench": {"dtype": "float32", "seed": 1, "cpu": {"launches": 3}}}
    assert read_artefact("results/24/cpu-x/bench.json", config)
    config["bench"]["cpu"]["launches"] = 4
    with pytest.raises(LabError, match=r"naive\.launches is another now"):
        read_artefact("results/24/cpu-x/bench.json", config)


def test_writing_an_artefact_changes_neither_it_nor_a_file_that_does_not_fit(tmp_path: Path):
    held = {"provenance": {"params": {}}, "value": 1}
    write_artefact(tmp_path / "one.json", held)
    assert held == {"provenance": {"params": {}}, "value": 1}
    assert not is_edited(read_json(tmp_path / "one.json"))
    schema = tmp_path / "schema.yaml"
    schema.write_text("required: [other]")
    with pytest.raises(LabError, match="lacks the key 'other'"):
        write_artefact(tmp_path / "two.json", held, schema)
    assert not (tmp_path / "two.json").exists()


def test_what_is_published_is_restored_and_a_restored_result_is_not_published_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = Path.cwd()
    monkeypatch.chdir(tmp_path)
    for name in ("schemas", "scripts", "src"):
        os.symlink(root / name, name)
    result = Path("results/24", DEVICE, "ceilings.json")
    ceilings(result, [4.0] * 60)
    picture = Path("results/24/roofline.svg")
    picture.write_text("<svg/>")
    pages = {str(picture): (["scripts/roofline.py"], [str(result)])}
    written = publish(DEVICE, [result], pages)
    folder = Path("results/recorded", DEVICE)
    assert written == [folder / "24/ceilings.json", folder / "24/roofline.svg", folder / "pages.json"]
    record = folder / "24/ceilings.json"
    today = todays(CEILINGS, {}, {"device": DEVICE})
    write_artefact(result, restore(record, CEILINGS, folder, today, "mark"))
    before = record.read_bytes()
    assert folder / "24/ceilings.json" not in publish(DEVICE, [result], pages)
    assert record.read_bytes() == before


def test_nothing_is_published_where_a_picture_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = ceilings(Path("results/24", DEVICE, "ceilings.json"), [4.0] * 60)
    with pytest.raises(LabError, match="is missing; draw it"):
        publish(DEVICE, [result], {"results/24/roofline.svg": (["scripts/roofline.py"], [str(result)])})
    assert not Path("results/recorded").exists()


def test_nothing_is_published_of_a_result_that_was_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = ceilings(tmp_path / "results/24" / DEVICE / "ceilings.json", [4.0] * 60)
    write_json(path, {**read_json(path), "copy_gb_per_s": 9000.0})
    with pytest.raises(LabError, match="is not what was written"):
        publish(DEVICE, [path], {}, tmp_path / "recorded")
    assert not (tmp_path / "recorded").exists()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "somebody", "-f", path], check=True)
    return path


def test_a_signed_record_says_by_whom(published: Path, key: Path):
    folder = published.parents[1]
    sign(folder, key)
    found = signature_of(folder)
    assert found.state == "signed"
    assert found.by.startswith("SHA256:")
    (folder.parent / SIGNERS).write_text(f"ada@example.org {key.with_suffix('.pub').read_text()}")
    assert signature_of(folder).by == "ada@example.org"
    assert restored(published)["restored"]["signed_by"] == "ada@example.org"
    assert signed(folder, signature_of(folder)) == f"{folder} is signed by ada@example.org."


def test_a_signature_of_other_digests_is_invalid(published: Path, key: Path):
    folder = published.parents[1]
    sign(folder, key)
    (folder / NAME).write_text((folder / NAME).read_text() + f"{'0' * 64}  24/more.json\n")
    assert signature_of(folder).state == "invalid"
    with pytest.raises(LabError, match="the signature of the record"):
        restored(published)


def test_publishing_anew_without_a_key_removes_the_old_signature(published: Path, key: Path):
    folder = published.parents[1]
    sign(folder, key)
    published.write_text(published.read_text() + "\n")
    write_sums(folder, [published])
    assert not (folder / SIGNATURE).exists()
    assert signature_of(folder).state == "unsigned"
    assert "is not signed" in signed(folder, signature_of(folder))


def test_a_key_that_is_none_is_refused(published: Path, tmp_path: Path):
    with pytest.raises(LabError, match=r"could not be signed with the key .*records\.sign"):
        sign(published.parents[1], tmp_path / "no such key")


def test_rows_that_were_measured_together_are_stale_together(tmp_path: Path):
    entry, made = artefact("contest"), read_json("results/recorded/h200/24/contest.json")
    made["provenance"]["inputs"] = {}  # what lies in the folder in which the tests run is none of its inputs
    path = tmp_path / "recorded" / DEVICE / "24/contest.json"
    write_artefact(path, made)
    write_sums(path.parents[1], [path])
    params = made["provenance"]["params"]
    for changed, stale in (({}, False), ({"seed": "another"}, True)):
        today = {"": ({**params, **changed}, made["provenance"]["sources"])}
        rows = restore(path, entry, path.parents[1], today, "mark")["rows"]
        assert {row["stale"] for row in rows} == {stale}


RECORDS = sorted(path for path in Path("results/recorded/h200").rglob("*.json") if artefact_recorded_at(path))


@pytest.mark.parametrize("path", RECORDS, ids=[path.relative_to("results/recorded").as_posix() for path in RECORDS])
def test_every_record_is_brought_back_and_fits_its_schema(path: Path):
    entry, _ = artefact_recorded_at(path)
    held = restore(path, entry, Path("results/recorded/h200"), {"": ({}, {})}, "mark")
    check_artefact(held, read_schema(entry.schema), str(path))


def test_kernels_that_a_record_does_not_have_are_missing_and_make_nothing_stale(tmp_path: Path):
    entry, made = artefact("bench"), read_json("results/recorded/h200/24/bench.json")
    path = tmp_path / "recorded" / DEVICE / "24/bench.json"
    write_artefact(path, made)
    write_sums(path.parents[1], [path])
    today = {kernel: (one["params"], one["sources"]) for kernel, one in made["kernels"].items()}
    held = restore(path, entry, path.parents[1], {**today, "mine": ({}, {}), "other": ({}, {})}, "fail")
    assert held["restored"]["missing"] == ["mine", "other"]
    assert not any(row["stale"] for row in held["rows"])
    check_artefact(held, read_schema(entry.schema), "bench.json")
    assert "missing" not in restore(path, entry, path.parents[1], today, "fail")["restored"]
