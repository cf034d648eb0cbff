"""Stage 25's report, manifest and the phases' closing pages say what the figures say."""

import gzip
import json
from pathlib import Path

import pytest
from distributed_artefact import artefact
from profile_artefact import profile

from minicompile.report.phase_reports import checks_24, checks_25, phase_report
from minicompile.report.stage_25 import capture_view, manifest_25, refusals, report_25

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


def test_the_manifest_holds_the_matches_and_the_kernels(captures):
    manifest = manifest_25(42, captures, [profile()], {})
    assert [row["max_abs_difference"] for row in manifest["compile_match"]] == [
        timing["max_difference"] for timing in profile()["timings"]
    ]
    assert [made["kernel"] for made in manifest["captures"]] == [
        "tiny_head/cpu/kernel.cpp",
        "tiny_head/simulated/kernel.py",
    ]


@pytest.mark.parametrize(("difference", "met"), [(4.7e-10, True), (2e-6, False), (None, None)])
def test_phase_25_is_held_to_its_bar(captures, difference, met):
    manifest = {**manifest_25(42, captures, [], {}), "compile_health": [{"healthy": True}]}
    if difference is not None:
        manifest["compile_match"] = [{"model": "tiny_head", "max_abs_difference": difference}]
    checks = checks_25(manifest, [artefact()])
    assert checks[0].met is met
    text = phase_report(25, "a title", checks, {}, {})
    assert ("**no**" in text) == (met is False)
    assert ("not measured" in text) == (met is None)


@pytest.mark.parametrize(("healthy", "met"), [([], None), ([True, True], True), ([True, False], False)])
def test_phase_25_is_held_to_every_compile_being_healthy(captures, healthy, met):
    manifest = manifest_25(42, captures, [], {})
    manifest["compile_health"] = [{"healthy": each} for each in healthy]
    (check,) = [check for check in checks_25(manifest, []) if "compiles safely" in check.asked]
    assert check.met is met


def test_phase_24_says_what_is_stale_and_what_was_not_measured():
    manifest = {
        "gpu": {"model": "NVIDIA H200"},
        "device": "h200",
        "softmax_kernels": {"triton": {"frac_of_F_softmax": 1.2, "autotune_picked": {"BLOCK": 1024, "num_warps": 4}}},
        "torch_port": {
            "byte_equivalence_at_fp32_cpu": "passed",
            "max_abs_diff_to_numpy_reference": 3e-6,
            "kernel_swap_changes_top1_token": False,
        },
        "restored": {"stale": False},
    }
    assert all(check.met for check in checks_24(manifest, {"excess_percent": 1.0}))
    manifest["restored"]["stale"] = True
    checks = checks_24(manifest, {"excess_percent": 1.0})
    assert [check.met for check in checks] == [True, True, True, None, None]
    assert all("a stale record" in check.found for check in checks[3:])
    manifest["softmax_kernels"]["triton"] = {"frac_of_F_softmax": None}
    assert [check.met for check in checks_24(manifest, {"excess_percent": 3.0})] == [False, True, True, None, None]
