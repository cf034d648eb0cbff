"""The proofs tell what is so from what only resembles it."""

import torch
from zoo_proofs import _converted, _same

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
