"""Attention that is written out for a GPU that is not here says so, in the capture, on its label and in a diff."""

import pytest
from zoo_models import captured

from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minicompile.explain.wording import Wording
from minilab.config.check import check_schema, read_schema


@pytest.fixture(scope="module")
def both():
    return captured("sdpa", "cpu").capture, captured("sdpa", "simulated").capture


def test_the_label_says_that_attention_is_written_out(both):
    here, simulated = both
    assert (here["target"]["attention"], simulated["target"]["attention"]) == (None, "math")
    assert "attention is written out" in Wording().label(simulated)
    assert "attention" not in Wording().label(here)
    other = captured("softmax", "simulated").capture
    assert other["target"]["attention"] is None
    assert "attention" not in Wording().label(other)


def test_a_diff_marks_what_is_due_to_it(both):
    found = diff_compiles(*both)
    check_schema(found, read_schema("schemas/diff_compiles.schema.yaml"), "the diff")
    (graph,) = found["graphs"]
    changed = {one["target"]: one.get("attention", False) for one in (*graph["appeared"], *graph["vanished"])}
    assert changed["aten.bmm.default"]
    assert any("flash_attention" in target and marked for target, marked in changed.items())
    assert "(of attention, which one side writes out)" in described(found)


def test_a_diff_marks_nothing_else(both):
    here, _ = both
    (graph,) = diff_compiles(here, captured("flipped", "simulated").capture)["graphs"]
    marks = {one["target"]: one.get("attention", False) for one in graph["appeared"]}
    assert marks["aten.bmm.default"]
    assert {"aten.cos.default", "aten.gather.default"} <= marks.keys()
    assert not marks["aten.cos.default"]
    assert not marks["aten.gather.default"]
