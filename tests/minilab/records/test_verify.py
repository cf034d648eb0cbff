"""Records whose bytes, samples or sources are not what they were are told apart from fresh ones."""

import copy
from pathlib import Path

import pytest
from recorded import DEVICE, record

from minilab import LabError
from minilab.files import read_json, write_json
from minilab.records.checksums import NAME, read_sums, write_sums
from minilab.records.publish import PAGES, read_pages
from minilab.records.store import write_artefact
from minilab.records.verify import Verdict, differences, table, verify, verify_device

CONFIG = {"kernels": {}, "models": {}}


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return record(tmp_path)


def judged(path: Path) -> Verdict:
    return verify(path, path.parents[1], CONFIG)


def renewed(path: Path, value: dict) -> Path:
    """The file with other content, and its digest in SHA256SUMS with it, as somebody who knows of that would do it."""
    write_json(path, value)
    write_sums(path.parents[1], [path])
    return path


def test_a_published_record_is_fresh(published: Path):
    (published.parent / ".DS_Store").write_text("left by a file manager")
    verdicts, signature = verify_device(published.parents[1], CONFIG)
    assert [verdict.state for verdict in verdicts] == ["fresh"] * 3
    assert signature.state == "unsigned"
    assert "| fresh | all of it holds |" in table(verdicts)


def test_changed_sources_make_it_stale(published: Path):
    made = read_json(published)
    path = "src/minikernel/measure/ceilings.py"
    write_artefact(
        published, made | {"provenance": made["provenance"] | {"sources": {path: "0" * 64, "src/gone.py": "1"}}}
    )
    write_sums(published.parents[1], [published])
    found = judged(published)
    assert found.state == "stale"
    assert {"code": "source_changed", "path": path} in found.reasons
    assert {"code": "source_gone", "path": "src/gone.py"} in found.reasons
    assert {"code": "source_new", "path": "scripts/ceilings.py"} in found.reasons


def test_an_edited_byte_makes_it_altered(published: Path):
    published.write_text(published.read_text() + " ")
    assert judged(published) == Verdict(str(published), "altered", [{"code": "not_published"}])


@pytest.mark.parametrize(
    ("where", "value"), [("copy_gb_per_s", 4.2), ("date", "2030-01-01T00:00:00+00:00"), ("versions", {"torch": "9.9"})]
)
def test_an_edited_figure_date_or_version_with_renewed_sums_is_altered(published: Path, where: str, value: object):
    held = read_json(published)
    target = held if where in held else held["provenance"]
    assert target[where] != value
    target[where] = value
    assert judged(renewed(published, held)).reasons == [{"code": "edited"}]


def test_a_figure_that_its_samples_do_not_give_is_altered_even_with_all_digests_renewed(published: Path):
    write_artefact(published, {**read_json(published), "copy_gb_per_s": 2.5})
    write_sums(published.parents[1], [published])
    found = judged(published)
    assert found.state == "altered"
    assert found.reasons == [{"code": "figure", "where": "copy_gb_per_s", "stored": "2.5", "again": "2"}]
    assert "| altered | copy_gb_per_s is 2.5, and its samples give 2 |" in table([found])


def test_a_file_that_was_never_published_is_altered(published: Path):
    other = published.with_name("more.json")
    other.write_bytes(published.read_bytes())
    assert judged(other).state == "altered"


@pytest.mark.parametrize("sums", [None, "", "not a digest"])
def test_a_record_without_its_digests_is_altered(published: Path, sums: str | None):
    file = published.parents[1] / NAME
    file.unlink() if sums is None else file.write_text(sums)
    verdicts, _ = verify_device(published.parents[1], CONFIG)
    assert {verdict.state for verdict in verdicts} == {"altered"}


def test_a_published_file_that_is_gone_is_said(published: Path):
    published.unlink()
    verdicts, _ = verify_device(published.parents[1], CONFIG)
    assert Verdict(str(published), "altered", [{"code": "missing"}]) in verdicts


def test_a_published_record_that_todays_schema_refuses_is_stale(published: Path):
    found = judged(renewed(published, {"provenance": {}}))
    assert found.state == "stale"
    assert "lacks the key" in found.reasons[0]["error"]


def test_a_picture_that_other_code_drew_is_stale(published: Path):
    folder = published.parents[1]
    pages = read_json(folder / "pages.json")
    pages["24/roofline.svg"]["sources"]["scripts/roofline.py"] = "0" * 64
    write_json(folder / "pages.json", pages)
    write_sums(folder, [folder / "pages.json"])
    found = judged(published.with_name("roofline.svg"))
    assert (found.state, found.reasons) == ("stale", [{"code": "source_changed", "path": "scripts/roofline.py"}])


def test_a_picture_of_other_figures_is_stale(published: Path):
    folder = published.parents[1]
    pages = read_json(folder / "pages.json")
    pages["24/roofline.svg"]["inputs"] = {f"results/24/{DEVICE}/ceilings.json": "0" * 64}
    write_json(folder / "pages.json", pages)
    write_sums(folder, [folder / "pages.json"])
    found = judged(published.with_name("roofline.svg"))
    assert found.reasons == [{"code": "input_differs", "path": f"results/24/{DEVICE}/ceilings.json"}]


def test_publishing_again_keeps_the_digests_of_the_rest_and_forgets_files_that_are_gone(published: Path):
    folder = published.parents[1]
    other, gone = folder / "25/profile.json", folder / "24/gone.json"
    for path in (other, gone):
        write_json(path, {})
    write_sums(folder, [other, gone])
    gone.unlink()
    write_sums(folder, [other])
    assert set(read_sums(folder)) == {"24/ceilings.json", "24/roofline.svg", "pages.json", "25/profile.json"}


def test_differences_name_the_place_and_ignore_the_last_digits():
    stored = {"rows": [{"us": 1.0, "note": "x"}, {"us": 2.0}], "more": 1}
    again = copy.deepcopy(stored)
    again["rows"][0]["us"] *= 1 + 1e-13
    assert list(differences(stored, again)) == []
    again["rows"][1]["us"] = 2.1
    found = list(differences(stored, {"rows": again["rows"]}))
    assert found == [{"code": "figure", "where": "rows[1].us", "stored": "2", "again": "2.1"}]
    assert list(differences(stored, {"rows": []}))
    assert [reason["stored"] for reason in differences({"us": None}, {"us": 1.0})] == ["None"]


def test_a_list_of_digests_that_is_no_text_is_refused(published: Path):
    (published.parents[1] / NAME).write_bytes(b"\xff\x00\xfe" * 9)
    with pytest.raises(LabError, match="is not a list of digests; bring it back"):
        verify_device(published.parents[1], CONFIG)


@pytest.mark.parametrize("line", [b"hello\n", b"0" * 64 + b"  a\x00b\n", b"0" * 64 + b"  \x7f\n"])
def test_a_line_that_holds_no_digest_does_not_count(published: Path, line: bytes):
    sums = published.parents[1] / NAME
    before = read_sums(sums.parent)
    sums.write_bytes(sums.read_bytes() + line)
    assert read_sums(sums.parent) == before


@pytest.mark.parametrize("pages", [{"a.png": None}, {"a.png": {}}, {"a.png": {"sources": 1}}])
def test_a_list_of_pages_that_is_none_is_refused(published: Path, pages: dict):
    write_json(published.parents[1] / PAGES, pages)
    with pytest.raises(LabError, match=r"pages\.json: a\.png"):
        read_pages(published.parents[1])


def test_figures_that_cannot_be_computed_again_are_a_reason(published: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(artefact: dict) -> dict:
        raise RuntimeError("sizes differ")

    monkeypatch.setattr("minilab.records.verify.resolve_name", lambda name: fails)
    assert {"code": "no_samples", "name": "sizes differ"} in judged(published).reasons
