"""The proofs tell what is so from what only resembles it."""

import torch
from zoo_fusion_proofs import fusions
from zoo_models import captured
from zoo_proofs import _converted, _same, _tells

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
    [numbers] = _converted({"nodes": nodes}, results)
    assert torch.equal(numbers, torch.arange(9.0))
    nodes[-1]["fate"] = "inlined"
    assert not _converted({"nodes": nodes}, results)


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
    one = captured("taken_over", "simulated", tmp_path)
    [graph] = one.capture["graphs"]
    [decision] = graph["decisions"]
    assert decision["reason"] == {"code": "blocks_and_rows"}
    verdict = fusions(one, {})
    assert (verdict.held["blocks_and_rows"], verdict.false) == (1, [])
    del decision["reasons"][0]  # as if the loops were in the same order from the beginning
    assert fusions(one, {}).false


def test_numbers_too_small_to_be_told_from_zeros_are_held_against_nothing():
    small, large = torch.full((9,), 2e-5), torch.full((9,), 2e-3)
    assert _same(small, torch.zeros(9), 1e-4)
    assert not _tells(small)
    assert _tells(large)
    assert _tells(torch.full((9,), torch.nan))
