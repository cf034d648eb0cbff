"""Attention that is written out for a GPU that is not here says so, in the capture, on its label and in a diff."""

import pytest
import torch
from captured import FAST
from torch.nn import functional as F

from minicompile.capturing import capture
from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minicompile.explain.wording import Wording
from minilab.config.check import check_schema, read_schema


def attend(q):
    return F.scaled_dot_product_attention(q, q, q) + q.sin().cumsum(-1)


@pytest.fixture(scope="module")
def both():
    q = torch.ones(1, 2, 8, 16)
    return capture(attend, q, options=FAST), capture(attend, q, target="simulated")


def test_the_label_says_that_attention_is_written_out(both):
    here, simulated = both
    assert (here["target"]["attention"], simulated["target"]["attention"]) == (None, "math")
    assert "attention is written out" in Wording().label(simulated)
    assert "attention" not in Wording().label(here)
    other = capture(torch.sin, torch.ones(3), target="simulated")
    assert other["target"]["attention"] is None
    assert "attention" not in Wording().label(other)


def test_a_diff_marks_what_is_due_to_it(both):
    found = diff_compiles(*both)
    check_schema(found, read_schema("schemas/diff_compiles.schema.yaml"), "the diff")
    (graph,) = found["graphs"]
    changed = {one["target"]: one.get("attention", False) for one in (*graph["appeared"], *graph["vanished"])}
    assert changed["aten.bmm.default"]
    assert any("flash_attention" in target and marked for target, marked in changed.items())
    assert not any(marked for target, marked in changed.items() if target.startswith("aten.cumsum"))
    assert "(of attention, which one side writes out)" in described(found)
