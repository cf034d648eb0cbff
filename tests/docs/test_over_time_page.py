"""The page on Inductor over time: it is what the comparisons that were run say, and they fit their schema."""

import json
from pathlib import Path

from docs.build import __main__ as build
from docs.build.over_time import page as pages

ROOT = Path(__file__).parents[2]
DATA = json.loads(pages.DATA.read_text())


def test_the_page_is_what_its_data_say_today():
    assert (ROOT / "docs/over_time.md").read_text() == pages.page(DATA), "run `python -m docs.build over_time`"


def test_the_same_versions_are_compared_everywhere_and_none_failed():
    columns = {tuple(version["asked"] for version in one["versions"]) for one in DATA["models"].values()}
    assert len(columns) == 1
    assert [(step["before"], step["after"]) for step in DATA["settings"]] == list(
        zip(*(columns.copy().pop()[start:] for start in (0, 1)), strict=False)
    )
    assert not [version for one in DATA["models"].values() for version in one["versions"] if version["failed"]]


def test_no_path_of_a_machine_is_among_the_defaults():
    assert not [one for step in DATA["settings"] for one in step["changed"] + step["new"] if "'/" in json.dumps(one)]


def test_what_is_run_again_replaces_what_was_kept_and_the_rest_stays(tmp_path):
    name = "tiny_head, simulated"
    kept = DATA["models"][name]
    found = {
        **kept,
        "model": {"name": "any", "train": False},
        "target": {**kept["target"], "device": "one"},
        "settings": [],
    }
    found["versions"] = [{**one, "seconds": 1.0, "explorer": None} for one in kept["versions"][:1]]
    at, data = tmp_path / "results/over_time/tiny_head-simulated/over_time.json", tmp_path / "data.json"
    at.parent.mkdir(parents=True)
    at.write_text(json.dumps(found))
    data.write_text(pages.DATA.read_text())
    pages.remember(tmp_path / "results", data)
    again = json.loads(data.read_text())
    assert again["models"].pop(name)["versions"] == kept["versions"][:1]
    assert again == {**DATA, "models": {key: one for key, one in DATA["models"].items() if key != name}}


def test_a_count_that_no_version_has_is_no_row():
    one = {**DATA["models"]["tiny_head, simulated"], "steps": []}
    without = [{**version, "counts": {**version["counts"], "ptx_lines": None}} for version in one["versions"]]
    assert "PTX" not in pages.page({"models": {"a": {**one, "versions": without}}, "settings": []})


def test_one_command_writes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert build.main(["over_time", "--docs", str(tmp_path), "--results", str(tmp_path / "none")]) == 0
    assert (tmp_path / "over_time.md").read_text() == pages.page(DATA)
