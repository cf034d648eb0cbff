"""The pages of the knobs: every number is of a what-if that was run, every sentence follows from the numbers."""

import json
import re
from pathlib import Path

import pytest
from recorded_pages import recorded

from docs.build import __main__ as build
from docs.build import what_if_pages as pages
from minicompile.knobs import KNOBS, TABLE
from minicompile.lowering.counts import counts

ROOT = Path(__file__).parents[2]
DATA = json.loads(pages.DATA.read_text())


def side(**counts: int) -> dict:
    full = dict.fromkeys(pages.ROWS, 1) | counts
    return {"settings": {}, "counts": full, "bytes_at_most": False}


def entry(before: dict, after: dict, **fields) -> dict:
    changed = {"before": 1, "after": 1}
    return {"before": side(**before), "after": side(**after), "same_code": False, "kernels_changed": changed, **fields}


@pytest.mark.parametrize("knob", KNOBS)
def test_every_page_is_what_its_data_say_today(knob: str):
    written = (ROOT / f"docs/what_if/{knob}.md").read_text()
    assert written == pages.page(knob, DATA), "run `python -m docs.build what_if`"


def test_the_index_lists_every_knob():
    written = (ROOT / "docs/what_if/README.md").read_text()
    assert written == pages.index(DATA), "run `python -m docs.build what_if`"
    assert re.findall(r"\]\((\w+)\.md\)", written) == [knob.name for knob in TABLE]


@pytest.mark.parametrize(
    ("gone", "new", "said"),
    [
        (3, 1, "None of the kernels before is among those after, word for word."),
        (2, 0, "Of the 3 kernels before, 2 are not among those after, word for word."),
        (0, 1, "All 3 kernels before are among those after, beside 1 new."),
        (0, 0, "The kernels are the same; the code that calls them differs."),
    ],
)
def test_which_kernels_are_still_there(gone, new, said):
    changed = {"kernels_changed": {"before": gone, "after": new}}
    assert pages.of_the_kernels(entry({"kernels": 3}, {"kernels": 3}, same_code=False) | changed) == said


def test_one_count_that_moves_is_one():
    said = pages.finding(entry({"lines": 5}, {"lines": 4}), "kernels")
    assert "This count moves too: lines of generated code." in said


def test_a_paragraph_is_broken_as_a_whole_and_code_is_not():
    prose = "A line of a template\nthat is broken early.\n\n```sh\none\ntwo\n```\n\n- a list\n- of two\n"
    assert pages.wrapped(prose) == prose.replace("\nthat", " that")


@pytest.mark.parametrize("knob", TABLE, ids=lambda knob: knob.name)
def test_every_knob_was_tried_where_code_alone_can_be_had(knob):
    tried = {one["target"]["kind"] for one in DATA[knob.name].values()}
    assert tried >= {"cpu", "simulated"} & set(knob.targets)


def test_what_is_quoted_is_what_the_compiler_makes_of_minigpt_today():
    """The counts of the side before are the recorded capture's; lines alone differ from one torch to the next."""
    quoted = DATA["fusion"]["simulated-h200"]["before"]["counts"]
    capture = counts(recorded("25/minigpt/capture.json"))
    assert {name: count for name, count in quoted.items() if name != "lines"} == {
        name: count for name, count in capture.items() if name != "lines"
    }, "run every knob's `snakemake what_if --config model=minigpt`, then `python -m docs.build what_if`"


@pytest.mark.parametrize("knob", KNOBS)
def test_the_side_before_is_the_same_for_every_knob_that_begins_at_the_defaults(knob: str):
    for device, one in DATA[knob].items():
        if knob != "epilogue_fusion":  # both of its sides use templates alone
            assert (
                one["before"]["counts"]
                == DATA["fusion" if device in DATA["fusion"] else knob][device]["before"]["counts"]
            )


@pytest.mark.parametrize("knob", KNOBS)
def test_every_knob_changes_minigpt_s_code_somewhere(knob: str):
    assert not all(one["same_code"] for one in DATA[knob].values())


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ((34, 66), "rises from 34 to 66"),
        ((1300, 12), "falls from 1,300 to 12"),
        ((5, 5), "stays 5"),
        ((None, 1), "is not known"),
    ],
)
def test_how_a_count_moved(pair, said):
    assert pages.moved(pair) == said


def test_a_finding_names_what_moves_and_nothing_else():
    said = pages.finding(entry({"kernels": 12, "lines": 5}, {"kernels": 23, "lines": 4}), "kernels")
    assert said.startswith("The number of generated kernels rises from 12 to 23. This count moves too: lines of")
    assert "bytes" not in said
    assert said.endswith("Of the 12 kernels before, 1 is not among those after, word for word.")


def test_a_finding_without_a_change_says_so():
    assert (
        pages.finding(entry({}, {}, same_code=True), "lines") == "The code is the same on either side, comments aside."
    )
    assert "Other counts" not in pages.finding(entry({}, {}), "lines")
    untouched = {"kernels_changed": {"before": 0, "after": 0}}
    assert "The kernels are the same; the code" in pages.finding({**entry({}, {}), **untouched}, "lines")


@pytest.mark.parametrize(
    ("pair", "said"),
    [([7, 0], "in 7 lines before and in no line after"), ([1, 2], "in 1 line before and in 2 lines after")],
)
def test_in_how_many_lines_a_mark_stands(pair, said):
    assert pages.lines_with(pair) == said


def found(knob: str, device: str, kernels: int) -> dict:
    """A what-if, as far as the pages read it."""
    lines = ["@triton_heuristics.pointwise("] * kernels
    body = {"settings": {}, "counts": dict.fromkeys(pages.ROWS, kernels), "bytes_at_most": False}
    graph = {"id": "0.forward", "lines": lines, "kernels": [{"changed": True}] * kernels}
    sides = {name: {**body, "graphs": [graph]} for name in pages.SIDES}
    target = {"kind": "simulated", "device": device, "gpu": None, "simulated": True}
    return {"torch": "2.13.0", "target": target, "knob": {"name": knob}, "same_code": False, **sides}


def test_what_is_run_again_replaces_what_was_kept_and_the_rest_stays(tmp_path: Path):
    data, at = tmp_path / "data.json", tmp_path / "results/25/minigpt/simulated-h200/what_if/fusion.json"
    at.parent.mkdir(parents=True)
    for kernels in (2, 3):
        at.write_text(json.dumps(found("fusion", "simulated-h200", kernels)))
        pages.remember(tmp_path / "results", data)
        data.write_text(json.dumps({**json.loads(data.read_text()), "vectors": {"cpu-of-mine": {"kept": True}}}))
    kept = json.loads(data.read_text())
    assert kept["fusion"]["simulated-h200"]["before"]["counts"]["kernels"] == 3
    assert kept["fusion"]["simulated-h200"]["marks"]["@triton_heuristics."] == [3, 3]
    assert kept["vectors"] == {"cpu-of-mine": {"kept": True}}


def test_one_command_writes_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    assert build.main(["what_if", "--docs", str(tmp_path), "--results", str(tmp_path / "none")]) == 0
    assert {path.stem for path in (tmp_path / "what_if").iterdir()} == {*KNOBS, "README"}
