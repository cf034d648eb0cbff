"""Nodes are looked up by some of their values: what may be one is always among those, and little else."""

import math

import pytest
import torch

from minicompile.verifying.matching import Candidates, Values, apart, matched, whole_pair


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


class Rows:
    """In the place of a graph's views: four elements are the first or the second row of three."""

    @staticmethod
    def ways(shape, of):
        return [None] if shape == of else [torch.arange(4), torch.arange(4, 8)] if (shape, of) == ((4,), (3, 4)) else []


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (torch.tensor([0.0, 0.0, 0.0, 0.0]), []),  # as some of the node's elements are
        (torch.tensor([1e-9, -3e-9, 2e-9, 1e-9]), []),
        (torch.tensor([0.0, 0.0, 2.0, -1.0]), ["node"]),
        (torch.tensor([True, False, True, True]), ["flags"]),  # and not the numbers 1 and 0
        (torch.tensor([1, 0, 1, 1]), ["flags", "numbers"]),
    ],
)
def test_zeros_are_no_elements_and_a_flag_is_no_number(content, found):
    node = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, -1.0], [3.0, 4.0, -5.0, 6.0]])
    flags = torch.tensor([True, False, True, True])
    candidates = Candidates([Values.of(*one) for one in (("node", node), ("flags", flags), ("numbers", flags.int()))])
    assert sorted(matched(whole_pair(content), [*candidates.every], candidates, Rows(), 4)) == found
