"""Stage 25's report, manifest and the phases' closing pages say what the figures say."""

import gzip
import json
import re
from pathlib import Path

import pytest
from distributed_artefact import artefact
from profile_artefact import profile

from minicompile.report.stage_25 import capture_view, manifest_25, mapping, refusals, report_25, tied

DATA = Path(__file__).parents[1] / "data"


def captured(name: str) -> dict:
    made = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
    return {
        **made,
        "provenance": {"device": made["target"]["device"], "date": "2026-11-21T00:00:00+00:00", "versions": {}},
    }


@pytest.fixture
def captures() -> list[tuple[str, dict]]:
    return [(f"tiny_head/{target}", captured(f"tiny_head_{target}")) for target in ("cpu", "simulated")]


def test_counts_are_those_of_the_capture(captures):
    folder, capture = captures[0]
    capture["graphs"][0]["decisions"][0]["taken"] = True
    before = capture_view(capture, folder)["graphs"][0]
    capture["graphs"][0]["decisions"][0]["taken"] = False
    after = capture_view(capture, folder)["graphs"][0]
    assert (after["fusions"], after["refused"]) == (before["fusions"] - 1, before["refused"] + 1)
    assert before["kernels"] == len(capture["graphs"][0]["kernels"])


def test_what_is_never_written_follows_the_fates(captures):
    folder, capture = captures[0]
    nodes = capture["graphs"][0]["nodes"]
    inlined = next(node for node in nodes if node["fate"] in ("inlined", "fused away"))
    before = capture_view(capture, folder)["graphs"][0]["unwritten_bytes"]
    inlined["fate"] = "materialised"
    assert capture_view(capture, folder)["graphs"][0]["unwritten_bytes"] == before - inlined["bytes"] < before


def test_the_commonest_refusal_comes_first():
    codes = ["devices", "between", "between", "between", "taken"]
    decisions = [{"taken": code == "taken", "reason": {"code": code}} for code in codes]
    (common, three), (rare, one) = refusals([{"graphs": [{"decisions": decisions}]}])
    assert (three, one) == (3, 1)
    assert "something else must run" in common
    assert "different devices" in rare


def test_the_report_shows_every_capture_and_says_what_is_simulated(captures):
    text = report_25(captures, [("tiny_head/cpu", profile())], [], "## A section of its own")
    for folder, _ in captures:
        assert f"]({folder}/explorer.html)" in text
    assert "has never run" in text
    assert f"{profile()['timings'][0]['max_difference']:.1e}" in text
    assert "## A section of its own\n" in text
    assert "has never run" not in report_25(captures[:1], [], [], "")
    assert "Nothing was timed" in report_25(captures, [], [], "")


@pytest.mark.parametrize(("language", "said"), [("en", "not comparable"), ("es", "no comparable")])
def test_outputs_that_cannot_be_compared_are_said_to_be_so(captures, language, said):
    drawing = profile()
    drawing["timings"] = [{**timing, "max_difference": None} for timing in drawing["timings"]]
    text = report_25(captures, [("tiny_head/cpu", drawing)], [], "", language=language)
    assert text.count(f"| {said} |") == len(drawing["timings"])


def test_the_manifest_holds_the_matches_and_the_kernels(captures):
    manifest = manifest_25(42, captures, [profile()], {})
    assert [row["max_abs_difference"] for row in manifest["compile_match"]] == [
        timing["max_difference"] for timing in profile()["timings"]
    ]
    assert [made["kernel"] for made in manifest["captures"]] == [
        "tiny_head/cpu/kernel.cpp",
        "tiny_head/simulated/kernel.py",
    ]


def test_an_operation_is_mapped_to_the_kernel_that_computes_it(captures):
    views = [capture_view(capture, folder) for folder, capture in captures]
    told = mapping(views, [capture for _, capture in captures])
    graph = captures[0][1]["graphs"][0]
    assert told["device"] == views[0]["device"]  # the code that ran, not the simulated one
    for row, node in zip(told["rows"], [n for n in graph["nodes"] if n["fate"] not in (None, "view")], strict=True):
        assert row["operation"] == node["target"]
        assert row["kernels"] == [call["kernel"] for call in graph["calls"] if node["name"] in call["aten_nodes"]]
    assert any("softmax" in kernel for row in told["rows"] for kernel in row["kernels"])
    assert told["noted"] is True
    assert mapping([], []) is None


def test_links_that_are_missing_are_counted_and_not_denied(captures):
    captures[0][1]["graphs"][0]["coverage"]["compute_nodes"] = [4, 6]
    views = [capture_view(capture, folder) for folder, capture in captures]
    done, whole = captures[1][1]["graphs"][0]["coverage"]["compute_nodes"]
    assert tied(views)["nodes"] == (4 + done, 6 + whole)
    assert f"{4 + done} of {6 + whole} reach a line" in report_25(captures, [], [], "")


def test_the_finding_stands_first_and_the_rest_is_folded(captures):
    text = report_25(captures, [("tiny_head/cpu", profile())], [artefact()], "all about safety")
    first = text.split("## What matters")[0]
    for asked in ("Asked", "Found", "Surprising", "Not known", "Look at next"):
        assert first.count(f"**{asked}**") == 1
    before = text.split("<details>")[0]
    assert len(re.findall("^- ", before, re.M)) <= 10  # five sentences, and at most five findings
    assert text.count("<details>") == text.count("</details>")
    for folded in ("all about safety", "guards and prologue", "fusions taken"):
        assert folded in text
        assert folded not in before


def test_the_manifest_names_what_the_annotated_kernel_computes(captures):
    assert {made["pattern"] for made in manifest_25(42, captures, [], {})["captures"]} == {"softmax"}
