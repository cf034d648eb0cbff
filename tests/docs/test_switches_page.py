"""The page on Inductor's switches: every row is of a try that was made."""

import json
import re
from pathlib import Path

import pytest

from docs.build import __main__ as build
from docs.build.over_time import switches as pages
from minilab.config.check import check_schema, read_schema

ROOT = Path(__file__).parents[2]
DATA = json.loads(pages.DATA.read_text())


def test_the_page_is_what_its_data_say_today():
    assert (ROOT / "docs/switches.md").read_text() == pages.page(DATA), "run `python -m docs.build switches`"


@pytest.mark.parametrize("run", DATA)
def test_what_is_kept_fits_its_schema_and_names_each_value_once(run):
    check_schema(DATA[run], read_schema(ROOT / "schemas/switches.schema.yaml"), run)
    told = [(one["name"], one["value"]) for one in DATA[run]["changes"] + DATA[run]["fails"]]
    assert len(told) == len(set(told))


def test_every_value_that_changes_code_is_a_row():
    rows = re.findall(r"^\| `([\w.]+)`.*?\| `(.*?)` \|", pages.page(DATA), re.M)
    assert set(rows) == {(one["name"], one["value"]) for found in DATA.values() for one in found["changes"]}
    assert len(rows) == len(set(rows))


def test_one_command_writes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert build.main(["switches", "--docs", str(tmp_path), "--results", str(tmp_path / "none")]) == 0
    assert (tmp_path / "switches.md").read_text() == pages.page(DATA)
