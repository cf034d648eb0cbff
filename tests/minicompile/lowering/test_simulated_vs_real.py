"""The simulated GPU against a real one: what is the same is said to be, and what differs is named with its reason."""

import copy

import pytest
from annotation_models import load

from minicompile.explain.wording import Wording
from minicompile.lowering.simulated_vs_real import compare_with_real
from minicompile.report.stage_25 import report_25
from minilab import LabError
from minilab.config.check import check_schema, read_schema


@pytest.fixture
def simulated() -> dict:
    return load("tiny_head", "simulated")


@pytest.fixture
def real(simulated: dict) -> dict:
    """What an H200 would have given, were it the same."""
    made = copy.deepcopy(simulated)
    made["target"] = {"kind": "cuda", "device": "h200", "gpu": "NVIDIA H200", "simulated": False}
    return made


def lines(capture: dict, pane: str) -> list[str]:
    return next(one["lines"] for one in capture["panes"] if one["id"] == pane)


def test_equal_captures_are_the_same_in_everything_and_need_no_reason(simulated, real):
    found = compare_with_real(simulated, real)
    assert found["same"]
    for graph in found["graphs"]:
        assert graph["why"] == []
        assert all(kernel["source_same"] and kernel["ttir_same"] and kernel["ptx_same"] for kernel in graph["kernels"])


def test_a_changed_byte_in_a_kernels_body_is_found_and_shown(simulated, real):
    graph = real["graphs"][0]
    kernel = graph["kernels"][0]
    lines(real, graph["panes"]["code"])[kernel["last"] - 2] += "  # other"
    found = compare_with_real(simulated, real)
    (entry,) = [one for one in found["graphs"][0]["kernels"] if one["name"] == kernel["name"]]
    assert not found["same"]
    assert not entry["source_same"]
    assert not entry["body_same"]
    assert any(line.endswith("# other") for line in entry["difference"])
    assert found["graphs"][0]["why"][0] == {"code": "bodies", "kernels": [kernel["name"]]}


def test_what_is_said_of_the_device_above_the_body_is_told_from_the_body(simulated, real):
    graph = real["graphs"][0]
    lines(real, graph["panes"]["code"])[graph["kernels"][0]["first"] - 1] += "  # other"
    found = compare_with_real(simulated, real)["graphs"][0]
    assert found["kernels"][0]["body_same"]
    assert found["why"][0]["code"] == "headers"


def test_another_configuration_explains_other_machine_code(simulated, real):
    kernel = real["graphs"][0]["kernels"][0]
    kernel["assembly"]["configuration"] = {"num_warps": 32}
    lines(real, kernel["assembly"]["panes"]["ptx"])[5] += " "
    found = compare_with_real(simulated, real)
    (reason,) = found["graphs"][0]["why"]
    assert found["same"]  # the text that Inductor wrote is
    assert reason == {"code": "configuration", "kernels": [kernel["name"]]}


def test_other_code_from_the_same_text_and_configuration_is_laid_to_triton(simulated, real):
    kernel = real["graphs"][0]["kernels"][0]
    lines(real, kernel["assembly"]["panes"]["ptx"])[5] += " "
    (reason,) = compare_with_real(simulated, real)["graphs"][0]["why"]
    assert reason == {"code": "compiled", "kernels": [kernel["name"]]}


def test_other_operations_are_the_reason_for_other_kernels(simulated, real):
    graph = real["graphs"][0]
    node = next(node for node in graph["nodes"] if node["target"] == "aten.addmm.default")
    node["target"] = "aten._addmm_activation.default"
    graph["kernels"] = []
    found = compare_with_real(simulated, real)
    assert found["graphs"][0]["only"]["simulated"] == [k["name"] for k in simulated["graphs"][0]["kernels"]]
    only = {"simulated": {"aten.addmm.default": 1}, "real": {"aten._addmm_activation.default": 1}}
    assert found["graphs"][0]["why"][0] == {"code": "both_operations", **only}
    said = Wording().difference(found["graphs"][0]["why"][0])
    assert "simulated has 1 x aten.addmm.default and real has 1 x aten._addmm_activation.default" in said


def test_captures_of_other_versions_or_models_are_refused(simulated, real):
    other = {**real, "model": {**real["model"], "name": "other"}}
    with pytest.raises(LabError, match="not captures of one model"):
        compare_with_real(simulated, other)
    real["environment"]["versions"]["triton"] = "1.0"
    with pytest.raises(LabError, match="capture both on the machine that has the GPU"):
        compare_with_real(simulated, real)


def test_the_report_says_what_is_the_same_and_what_is_not(simulated, real):
    real["graphs"][0]["kernels"][0]["assembly"]["configuration"] = {"num_warps": 32}
    found = compare_with_real(simulated, real)
    found["provenance"] = {"date": "2026-11-21T00:00:00+00:00"}
    check_schema(found, read_schema("schemas/simulated_vs_real.schema.yaml"), "the comparison")
    text = report_25([("tiny_head/h200", real)], [], [], "", [found])
    assert "| `tiny_head` | forward | 1 | 1 | 0 |" in text
    assert "chose by timing" in text
