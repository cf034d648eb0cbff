"""What comes of the suites on another torch is counted from pytest's own report, and stands in the playbook's table."""

import json

import on_torch

from docs.build import playbook

REPORT = """<testsuites><testsuite>
<testcase classname="tests.minicompile.safe.test_safe_call" name="test_one"/>
<testcase classname="tests.minicompile.safe.test_safe_call" name="test_two[a]"><failure message="no"/></testcase>
<testcase classname="tests.minicompile.safe.test_safe_gpu" name="test_three"><skipped/></testcase>
<testcase classname="tests.minicompile.safe.test_safe_cost" name="test_four"><error message="no"/></testcase>
</testsuite></testsuites>"""


def test_suites_are_the_folders_of_tests_of_packages_that_import_torch():
    found = on_torch.suites()
    assert {"minicompile/safe", "minicompile/torch_private", "minikernel/ops", "minimodel"} <= set(found)
    assert not [suite for suite in found if suite.startswith(("minilab", "workflow"))]


def test_a_run_takes_the_place_of_the_last_one_and_is_told_in_the_table(tmp_path, monkeypatch):
    report, results = tmp_path / "report.xml", tmp_path / "results.json"
    monkeypatch.setattr(playbook, "ON_TORCH", results)
    for torch in ("2.15.0+cu132", "2.9.0", "2.15.0+cu132"):
        monkeypatch.setattr(on_torch, "_torch", lambda torch=torch: torch)
        report.write_text(REPORT if torch == "2.9.0" else "<testsuites><testcase/></testsuites>")
        on_torch.keep("minicompile/safe", 1, report, results)
    monkeypatch.setattr(on_torch, "_torch", lambda: "2.9.0")
    on_torch.keep("main job", 0, tmp_path / "none.xml", results)
    day = json.loads(results.read_text())["2.9.0"]["main job"]["date"]
    assert playbook.versions().splitlines() == [
        "| suite | 2.9.0 | 2.15.0+cu132 |",
        "| --- | --- | --- |",
        f"| main job | 1 passed, {day} | – |",
        f"| minicompile/safe | 2 of 3 failed, 1 skipped, {day} | 1 passed, {day} |",
        "",
        "What failed:",
        "",
        "- torch 2.9.0, minicompile/safe:",
        "  `test_safe_call::test_two[a]`,",
        "  `test_safe_cost::test_four`",
    ]
