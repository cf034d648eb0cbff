"""A GPU that is not here answers what torch asks while it compiles."""

import torch
from torch import nn
from zoo_models import captured

from minicompile.lowering.capture import capture


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3)

    def forward(self, x):
        return self.convolution(x).square().mean()


def test_a_convolution_of_an_input_that_is_laid_out_otherwise_is_captured():
    """torch makes the input contiguous to see in which layout the library would answer."""
    [graph] = captured("sequence_conv", "simulated").capture["graphs"]
    assert any(node["target"] == "aten.convolution.default" for node in graph["nodes"])


def test_the_gradient_of_a_convolutions_bias_is_a_sum_as_on_a_gpu():
    """On the CPU, on which AOT autograd traces, Inductor leaves it to the library."""
    made = capture(Convolved(), torch.randn(2, 3, 7, 9), target="simulated", train=True)
    [backward] = [graph for graph in made["graphs"] if graph["direction"] == "backward"]
    assert any(node["target"].startswith("aten.sum") for node in backward["nodes"])


def test_constants_of_one_shape_are_told_apart():
    """Their values are known, though the GPU that they are on is not there."""

    def scaled(x):
        first, second, third = (torch.tensor([[float(one)] * 20] * 3, device=x.device) for one in (1, 2, 2))
        return x * first + second - third

    [graph] = capture(scaled, torch.randn(3, 20), target="simulated")["graphs"]
    numbers = [node for node in graph["nodes"] if "full" in node["target"] or node["op"] == "get_attr"]
    assert len(numbers) == 3
