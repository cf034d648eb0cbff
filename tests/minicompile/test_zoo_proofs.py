"""The proofs tell what is so from what only resembles it."""

import copy
from math import inf

import pytest
import torch
from zoo_fusion_proofs import fusions
from zoo_models import captured, captured_anew
from zoo_proofs import _converted, _same, _tells, _tolerances, fates
from zoo_runs import ran
from zoo_text_proofs import contents

HALF = 5e-2


def test_small_numbers_are_not_the_same_because_half_precision_fed_them():
    small = torch.rand(50, generator=torch.Generator().manual_seed(0)) * 0.01
    assert not _same(small, small.square(), HALF)
    assert not _same(small, torch.zeros(50), HALF)
    assert _same(small, small.bfloat16().float(), HALF)


def test_what_cancels_out_to_next_to_nothing_is_the_same_in_any_order_of_addition():
    assert _same(torch.full((9,), 3e-8), torch.full((9,), -2e-8), 1e-4)
    assert _same(torch.arange(9.0) * 1e6, torch.arange(9.0) * 1e6 + 5, 1e-4)


def test_only_operands_of_another_dtype_are_numbers_of_the_concatenation_itself():
    results = {"cut": torch.arange(9).int(), "mul": torch.rand(9), "cat": torch.rand(18)}
    nodes = [
        {"name": name, "target": f"aten.{name}.default", "fate": "materialised", "inputs": inputs}
        for name, inputs in (("cut", []), ("mul", []), ("cat", ["cut", "mul"]))
    ]
    [numbers] = _converted({"nodes": nodes, "buffers": []}, results)
    assert torch.equal(numbers, torch.arange(9.0))
    nodes[-1]["fate"] = "inlined"
    assert not _converted({"nodes": nodes, "buffers": []}, results)


LOOPS_TAKEN_OVER = """
from torch import nn, rand, randn


class Model(nn.Module):
    def forward(self, x, y):
        return (x * y.permute(2, 1, 0)).sum(), y.sign()


def make():
    return Model(), (randn(7, 5, 4), rand(4, 5, 7))
"""


def test_blocks_are_looked_for_in_the_order_of_loops_that_two_nodes_would_share(tmp_path):
    (tmp_path / "taken_over.py").write_text(LOOPS_TAKEN_OVER)
    one = captured_anew("taken_over", "simulated", tmp_path)
    [graph] = one.capture["graphs"]
    [decision] = graph["decisions"]
    assert decision["reason"] == {"code": "blocks_and_rows"}
    verdict = fusions(one, {})
    assert (verdict.held["blocks_and_rows"], verdict.false) == (1, [])
    del decision["reasons"][0]  # as if the loops were in the same order from the beginning
    assert fusions(one, {}).false


@pytest.mark.parametrize("other", ["prologue_inputs", "prologue_memory", "epilogue", "library"])
def test_why_a_template_takes_nothing_in_is_held_by_what_stands_before_it(other):
    one = copy.deepcopy(captured("linear_in_template", "simulated"))
    decisions = [one for graph in one.capture["graphs"] for one in graph["decisions"]]
    verdict = fusions(one, {})
    assert (verdict.held["prologue_kind"], verdict.held["prologue_uses"], verdict.false) == (2, 1, [])
    told = [one["reason"] for one in decisions if one["reason"]["code"] in ("prologue_kind", "prologue_uses")]
    for reason in told:
        reason["code"] = other
    assert len(fusions(one, {}).false) == len(told)


def test_memory_that_another_call_changed_is_not_what_stood_in_it_before():
    one = captured("changed_between", "simulated")
    verdict = contents(one, {})
    assert verdict.held["contents"] > 1
    assert not verdict.false
    forgetful = copy.deepcopy(one)
    for graph in forgetful.capture["graphs"]:
        for node in graph["scheduler_nodes"]:
            node["changes"] = []
    assert contents(forgetful, {}).false


def test_numbers_too_small_to_be_told_from_zeros_are_held_against_nothing():
    small, large = torch.full((9,), 2e-5), torch.full((9,), 2e-3)
    assert _same(small, torch.zeros(9), 1e-4)
    assert not _tells(small)
    assert _tells(large)
    assert _tells(torch.full((9,), torch.nan))


def test_what_jumps_where_it_was_rounded_is_held_against_nothing():
    nodes = [
        {"name": "x", "target": "x", "dtype": "bfloat16", "inputs": []},
        {"name": "floor", "target": "aten.floor.default", "dtype": "bfloat16", "inputs": ["x"]},
        {"name": "add", "target": "aten.add.Tensor", "dtype": "float32", "inputs": ["floor"]},
        {"name": "y", "target": "y", "dtype": "float32", "inputs": []},
        {"name": "ceil", "target": "aten.ceil.default", "dtype": "float32", "inputs": ["y"]},
    ]
    assert _tolerances({"nodes": nodes}) == {"x": HALF, "floor": inf, "add": inf, "y": 1e-4, "ceil": 1e-4}


CHANGED_IN_PLACE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, place):
        y = torch.zeros_like(x).scatter_add(0, place, x * x)
        return y.erf(), y.double(), (y * x).sum()


def make():
    return Model(), (torch.randn(2), torch.tensor([1, 0]))
"""


def test_a_buffer_that_was_changed_in_place_is_as_wide_as_its_memory(tmp_path):
    (tmp_path / "changed.py").write_text(CHANGED_IN_PLACE)
    verdict = fusions(captured_anew("changed", "cpu", tmp_path), {})
    assert verdict.held["not_worth_it"] > 0
    assert verdict.false == []


def test_each_of_several_results_is_looked_for_by_itself(tmp_path):
    one = captured("small_variance", "cpu")
    [runs] = ran([one], tmp_path)
    verdict = fates(one, runs)
    assert (verdict.held["materialised"] > 0, verdict.held["inlined"] > 0, verdict.false) == (True, True, [])
    nodes = {node["name"]: node for node in one.capture["graphs"][0]["nodes"]}
    nodes["getitem_4"]["buffer"], nodes["getitem_5"]["buffer"] = nodes["getitem_5"]["buffer"], None
    assert [sentence.partition(": ")[2] for sentence in fates(one, runs).false] == [
        "getitem_4 is nowhere in memory",
        "getitem_5, inlined, is in memory",
    ]
