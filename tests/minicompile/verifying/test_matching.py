"""Nodes are looked up by some of their values: what may be one is always among those, and little else."""

import math

import pytest
import torch

from minicompile.verifying.matching import Candidates, Values, apart


@pytest.fixture(scope="module")
def nodes() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    made = {f"node_{number}": torch.randn(300) for number in range(20)}
    made["masked"] = torch.where(torch.rand(300) < 0.5, -math.inf, 0.0)
    made["mostly_zero"] = torch.randn(300) * (torch.rand(300) < 0.1)
    made["places"] = torch.arange(300)
    return made


@pytest.fixture(scope="module")
def candidates(nodes) -> Candidates:
    return Candidates([Values.of(name, one) for name, one in nodes.items()])


@pytest.mark.parametrize("name", ["node_0", "node_7", "mostly_zero"])
def test_a_node_is_found_by_some_of_its_values(nodes, candidates, name):
    found = candidates.of(nodes[name][torch.randperm(300)[:120]], True)
    assert name in found
    assert len(found) <= 2


def test_what_holds_no_number_may_be_a_node_with_such_values_alone(candidates):
    assert candidates.of(torch.full((5,), -math.inf), True) == ["masked"]
    assert candidates.of(torch.arange(4), False) == ["places"]


def test_infinities_and_what_is_no_number_are_equal_to_themselves_alone():
    node = Values.of("x", torch.tensor([math.inf, -math.inf, math.nan, 1.0, math.nan]))
    made = torch.tensor([math.inf, math.inf, math.nan, math.inf, 1.0], dtype=torch.float64)
    assert apart(made, node, torch.arange(5), torch.float32).tolist() == [0.0, math.inf, 0.0, math.inf, math.inf]
