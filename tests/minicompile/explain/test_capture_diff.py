"""Two captures compared: what appeared, vanished, was fused differently, and why."""

import copy
import json

import pytest
from annotation_models import load

from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minilab.config.check import check_schema, read_schema


def compared(a: dict, b: dict) -> dict:
    """The diff, held against its schema and put into words."""
    found = diff_compiles(a, b)
    check_schema(json.loads(json.dumps(found)), read_schema("schemas/diff_compiles.schema.yaml"), "diff.json")
    assert described(found).startswith("# Two compiles compared\n")
    return found


@pytest.fixture
def a() -> dict:
    return load("tiny_head", "cpu")


@pytest.fixture
def b() -> dict:
    return load("tiny_head", "cpu")


def names(nodes: list[dict]) -> list[str]:
    return [node["name"] for node in nodes]


def test_a_capture_is_the_same_as_itself(a, b):
    found = compared(a, b)
    assert found["same"]
    assert found["environment"] == []
    assert found["graphs"][0]["matched"] == 7
    assert "The same ATen nodes" in described(found)


def test_new_names_and_shifted_lines_are_no_difference(a, b):
    text = json.dumps(b)
    for old, new in (('"sum_1"', '"total"'), ('"addmm"', '"logits"'), ('"sub"', '"difference"')):
        text = text.replace(old, new)
    b = json.loads(text)
    pane = next(pane for pane in b["panes"] if pane["kind"] == "source")
    pane["lines"].insert(0, "# a new first line")
    for link in b["links"]:
        if link["from"] == pane["id"]:
            link["pairs"] = [[line + 1, to] for line, to in link["pairs"]]
    code = next(pane for pane in b["panes"] if pane["kind"] == "code")
    code["lines"] = next(pane for pane in a["panes"] if pane["kind"] == "code")["lines"]
    assert compared(a, b)["same"]


def test_another_target_shows_what_its_lowering_does_otherwise(a):
    found = compared(a, load("tiny_head", "simulated"))
    graph = found["graphs"][0]
    assert names(graph["vanished"]) == ["amax", "sum_1"]
    assert names(graph["appeared"]) == ["prepare_softmax_online_default", "getitem", "getitem_1"]
    assert [(one["a"]["fate"], one["b"]["fate"]) for one in graph["fates"]] == [("fused away", "inlined")]
    assert not found["same"]
    assert next(one["what"] for one in found["environment"]) == {"code": "target"}
    assert "`prims.prepare_softmax_online.default`" in described(found).split("### Vanished")[0]


def test_an_edit_of_the_source_is_found(a, b):
    pane = next(pane for pane in b["panes"] if pane["kind"] == "source")
    pane["lines"] = [line.replace("F.softmax(logits, dim=-1)", "F.softmax(logits, -1)") for line in pane["lines"]]
    graph = compared(a, b)["graphs"][0]
    assert names(graph["vanished"]) == names(graph["appeared"]) == ["amax", "sub", "exp", "sum_1", "div"]


SO_IT_IS = {"code": "own_words", "reason": "so it is"}
SOMETHING_ELSE = {"code": "own_words", "reason": "about something else"}


def split(capture: dict) -> dict:
    """The softmax kernel made two by hand: the maximum in one, the rest in another, and a refusal between them."""
    graph = capture["graphs"][0]
    call = graph["calls"][-1]
    second = copy.deepcopy(call)
    call |= {"scheduler_nodes": ["op1"], "aten_nodes": ["amax"]}
    second |= {"id": "second", "scheduler_nodes": ["op2", "op3", "op4"], "aten_nodes": ["sub", "exp", "sum_1", "div"]}
    graph["calls"].append(second)
    refused = {"shared_buffers": ["buf0"], "taken": False, "reasons": ["because"]}
    for first, second_nodes, reason in [(["op1"], ["op2", "op3"], SO_IT_IS), (["op0"], ["op4"], SOMETHING_ELSE)]:
        graph["decisions"].append({"first": first, "second": second_nodes, "reason": reason, **refused})
    return capture


def test_a_kernel_that_became_two_is_told_with_the_reason(a, b):
    found = compared(a, split(b))
    (entry,) = found["graphs"][0]["fused"]
    assert entry["nodes"] == ["amax", "div", "exp", "sub", "sum_1"]
    assert [one["nodes"] for one in entry["b"]] == [["amax"], ["div", "exp", "sub", "sum_1"]]
    assert entry["reasons"] == [SO_IT_IS]
    text = described(found)
    assert "Fused differently" in text
    assert "in its own words: so it is." in text
    assert "about something else" not in text


def test_two_kernels_that_became_one_are_told_with_the_old_reason(a, b):
    fused = compared(split(a), b)["graphs"][0]["fused"]
    rest = ["div", "exp", "sub", "sum_1"]
    joined = [(one["nodes"], one["others"]) for entry in fused for one in entry["b"]]
    assert joined == [(["amax"], rest), (rest, ["amax"])]
    assert [entry["reasons"] for entry in fused] == [[SO_IT_IS]] * 2


def test_a_view_that_another_torch_lowers_without_a_check_is_the_same_node(a, b):
    for capture, target in ((a, "aten.view.default"), (b, "aten._unsafe_view.default")):
        next(node for node in capture["graphs"][0]["nodes"] if node["name"] == "permute")["target"] = target
    assert compared(a, b)["same"]


def test_of_kernels_of_which_something_was_passed_over_nothing_is_said_but_that(a, b):
    b = split(b)
    b["warnings"] = [{"code": "unseen", "graph": "0.forward", "what": "scheduler_nodes", "names": ["op7"]}]
    b["graphs"][0]["calls"][-1]["doubted"] = True
    found = compared(a, b)
    assert not found["same"]
    assert (found["graphs"][0]["fused"], found["graphs"][0]["rewritten"]) == ([], [])
    assert "> b: In graph 0.forward, something was passed over" in described(found)
    assert "> b: En el grafo 0.forward" in described(found, "es")


def test_views_make_no_kernel_differ(a, b):
    b["graphs"][0]["calls"][-1]["aten_nodes"].append("permute")
    assert compared(a, b)["same"]


def test_without_a_recorded_reason_none_is_made_up(a, b):
    b = split(b)
    b["graphs"][0]["decisions"] = []
    found = compared(a, b)
    assert found["graphs"][0]["fused"][0]["reasons"] == []
    assert "Neither capture records a refused fusion" in described(found)


def test_a_changed_fate_is_told_with_the_refusal_over_its_buffer(a, b):
    graph = b["graphs"][0]
    node = next(one for one in graph["nodes"] if one["name"] == "exp")
    node["fate"] = "materialised"
    (entry,) = compared(a, b)["graphs"][0]["fates"]
    assert (entry["a"]["fate"], entry["b"]["fate"]) == ("fused away", "materialised")
    assert entry["reasons"] == [
        d["reason"] for d in graph["decisions"] if not d["taken"] and "buf2" in d["shared_buffers"]
    ]
    assert entry["reasons"]


def test_the_same_operations_in_another_text_are_counted_by_lines(a, b):
    pane = next(pane for pane in b["panes"] if pane["kind"] == "code")
    kernel = b["graphs"][0]["kernels"][0]
    pane["lines"][kernel["first"]] += "  // edited"
    (entry,) = compared(a, b)["graphs"][0]["rewritten"]
    assert (entry["lines_removed"], entry["lines_added"]) == (1, 1)


def test_versions_and_options_are_compared(a, b):
    b["environment"]["versions"]["torch"] = "9.9"
    b["environment"]["options"]["cpp.simdlen"] = "128"
    found = compared(a, b)
    assert [(one["what"], one["b"]) for one in found["environment"]] == [
        ({"code": "version", "name": "torch"}, "9.9"),
        ({"code": "option", "name": "cpp.simdlen"}, "128"),
    ]
    assert "| version of torch |" in described(found)
    assert found["same"]


def test_a_graph_of_one_side_alone_is_named(a, b):
    b["graphs"][0]["id"] = "0.backward"
    found = compared(a, b)
    assert (found["only_a"], found["only_b"]) == (["0.forward"], ["0.backward"])
    assert not found["same"]


def test_a_refusal_that_was_considered_in_the_other_order_is_a_reason_too():
    other = split(load("tiny_head", "cpu"))
    for decision in other["graphs"][0]["decisions"]:
        decision["first"], decision["second"] = decision["second"], decision["first"]
    (entry,) = diff_compiles(load("tiny_head", "cpu"), other)["graphs"][0]["fused"]
    assert entry["reasons"] == [SO_IT_IS]
