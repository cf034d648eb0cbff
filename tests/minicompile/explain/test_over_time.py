"""One model's captures under several versions of torch: what differs, and which reasons are claimed.

The captures are real ones of 2.13.0 and 2.15.0, concluded from what was watched; a 2.15 that differs in one respect is
that capture with this respect changed.
"""

import copy
import json
from functools import cache
from pathlib import Path

import pytest

from minicompile.explain.over_time import over_time, render_over_time, told
from minicompile.explain.over_time.compared import NESTED
from minicompile.explain.reading import captures
from minilab.config.check import check_schema, read_schema
from minilab.pages.translations import LANGUAGES

VERSIONS = Path(__file__).parents[1] / "versions"


@cache
def watched(version: str, model: str) -> dict:
    with captures(VERSIONS / version / f"{model}.json.xz") as (capture,):
        return capture


def compared(*made: tuple[str, dict | None]) -> dict:
    found = over_time(
        [
            {"asked": name, "capture": capture, "failed": None if capture else "it failed.", "settings": None}
            for name, capture in made
        ]
    )
    check_schema(json.loads(json.dumps(found)), read_schema("schemas/over_time.schema.yaml"), "over_time.json")
    return found


def pair(model: str, *, back: bool = False) -> dict:
    versions = ["2.13.0", "2.15.0"]
    return compared(*((one, watched(one, model)) for one in (versions[::-1] if back else versions)))


def reasons(found: dict) -> dict[str, list[str]]:
    """The codes of the reasons of each difference, with the way they go."""
    (step,) = found["steps"]
    return {
        one["count"]: [f"{why['code']}.{why['way']}" if "way" in why else why["code"] for why in one["why"]]
        for one in step["differences"]
    }


def test_a_reduction_within_a_reduction_is_the_reason_for_one_kernel_less():
    found = reasons(pair("quantised_norm"))
    for count in ("kernels", "generated_launches", "fusions", "bytes"):
        assert found[count] == ["nested.forth"]
    moved = {one["count"]: (one["before"], one["after"]) for one in pair("quantised_norm")["steps"][0]["differences"]}
    assert moved["kernels"] == (2, 1)
    assert moved["bytes"] == (4_792_320, 2_691_072)


def test_from_a_newer_version_to_an_older_the_reasons_go_back():
    assert reasons(pair("quantised_norm", back=True))["kernels"] == ["nested.back"]
    assert reasons(pair("long_softmax", back=True))["main_lines"] == ["online_softmax_scalar.back"]


def test_kernels_joined_otherwise_are_joined_and_no_nested_reduction():
    other = copy.deepcopy(watched("2.15.0", "quantised_norm"))
    for group in other["graphs"][0]["groups"]:
        assert group["kind"] == NESTED
        group["kind"] = "FusedSchedulerNode"
    found = compared(("2.13.0", watched("2.13.0", "quantised_norm")), ("2.15.0", other))
    assert reasons(found)["kernels"] == ["joined.forth"]


def test_what_the_texts_of_matched_kernels_tell_is_a_reason_of_these_kernels_alone():
    found = pair("long_softmax")
    assert reasons(found)["ptx_lines"] == ["online_softmax_scalar.forth"]
    (rewritten,) = found["steps"][0]["rewritten"]
    assert [why["code"] for why in rewritten["why"]] == ["online_softmax_scalar"]


def test_where_the_captures_hold_no_reason_none_is_claimed():
    other = copy.deepcopy(watched("2.13.0", "long_softmax"))
    other["graphs"][0]["calls"][0]["bytes"] += 4
    found = compared(("2.13.0", watched("2.13.0", "long_softmax")), ("2.14", other))
    assert reasons(found) == {"bytes": []}
    assert "The captures hold no reason." in told(found)


def test_a_new_name_is_no_difference():
    text = json.dumps(watched("2.13.0", "quantised_norm"))
    other = json.loads(text.replace("triton_per_fused_", "triton_other_name_"))
    assert other != watched("2.13.0", "quantised_norm")
    found = compared(("2.13.0", watched("2.13.0", "quantised_norm")), ("2.14", other))
    assert found["steps"] == [{"before": "2.13.0", "after": "2.14", "same": True, "differences": [], "rewritten": []}]


def test_the_same_text_under_another_triton_says_so_of_the_ptx():
    other = copy.deepcopy(watched("2.13.0", "long_softmax"))
    other["environment"]["versions"]["triton"] = "4.0.0"
    ptx = other["graphs"][0]["kernels"][0]["assembly"]["panes"]["ptx"]
    next(pane for pane in other["panes"] if pane["id"] == ptx)["lines"].append("// one more")
    found = compared(("2.13.0", watched("2.13.0", "long_softmax")), ("2.14", other))
    assert reasons(found) == {"ptx_lines": ["triton"]}


def test_an_operation_that_one_version_has_alone_is_a_reason_where_the_count_goes_its_way():
    found = reasons(compared(("a", watched("2.13.0", "quantised_norm")), ("b", watched("2.13.0", "long_softmax"))))
    assert found["kernels"] == ["nodes"]
    back = reasons(compared(("a", watched("2.13.0", "long_softmax")), ("b", watched("2.13.0", "quantised_norm"))))
    assert back["kernels"] == ["nodes"]


def test_a_version_that_failed_has_a_sentence_and_the_others_are_compared():
    made = [
        ("2.13.0", watched("2.13.0", "long_softmax")),
        ("2.14", None),
        ("2.15.0", watched("2.15.0", "long_softmax")),
    ]
    found = compared(*made)
    assert [(step["before"], step["after"]) for step in found["steps"]] == [("2.13.0", "2.15.0")]
    assert "torch 2.14: it failed." in told(found)


def test_a_graph_break_that_one_version_has_alone_is_the_reason_for_more_graphs():
    other = copy.deepcopy(watched("2.13.0", "long_softmax"))
    other["graphs"].append({**copy.deepcopy(other["graphs"][0]), "id": "1.forward", "index": 1})
    other["graph_breaks"] = [{"reason": "Unsupported context manager", "stack": []}]
    found = compared(("2.13.0", watched("2.13.0", "long_softmax")), ("2.14", other))
    assert reasons(found)["graphs"] == ["break.forth"]
    assert reasons(found)["kernels"] == []


def test_defaults_that_changed_came_or_went_are_told_apart():
    held = [{"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "False", "d": "4"}]
    made = [
        {"asked": name, "capture": watched(name, "long_softmax"), "failed": None, "settings": settings}
        for name, settings in zip(("2.13.0", "2.15.0"), held, strict=True)
    ]
    (found,) = over_time(made)["settings"]
    assert found["changed"] == [{"name": "b", "before": "2", "after": "False"}]
    assert (found["new"], found["gone"]) == ([{"name": "d", "value": "4"}], [{"name": "c", "value": "3"}])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("back", [False, True])
def test_the_page_says_what_the_text_says(tmp_path, language, back):
    for model in ("quantised_norm", "long_softmax"):
        found = pair(model, back=back)
        render_over_time(found, tmp_path / "page.html", language)
        page = (tmp_path / "page.html").read_text()
        for line in told(found, language).splitlines()[2:]:
            assert line.strip() in page.replace("<code>", "").replace("</code>", "").replace("&#39;", "'")
