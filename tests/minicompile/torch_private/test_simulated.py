"""A GPU that is not here answers what torch asks while it compiles."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map
from zoo_models import captured_anew, load, watched

from minicompile.capturing import capture
from minicompile.torch_private import simulated
from minicompile.watching.model import watch_model
from minilab import LabError

CASES = Path(__file__).parents[1] / "cases"


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3)

    def forward(self, x):
        return self.convolution(x).square().mean()


def test_a_convolution_of_an_input_that_is_laid_out_otherwise_is_captured():
    """torch makes the input contiguous to see in which layout the library would answer."""
    [graph] = captured_anew("sequence_conv", "simulated").capture["graphs"]
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


INDICES = {
    "a number": 1,
    "a slice": slice(1, None),
    "a step": (slice(None, None, 2), slice(0, -1)),
    "a new axis": (None, slice(None), None, 2),
    "from the end": (..., -1),
    "across": (slice(None), 0, ..., None),
    "places": (slice(None), torch.tensor([2, 0])),
    "places of two axes": (torch.tensor([0, 1]), slice(None), torch.tensor([1, 4])),
    "a mask": torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0)) > 0.4,
    "a mask of two axes": (..., torch.rand(4, 5, generator=torch.Generator().manual_seed(0)) > 0.4),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_a_tensor_on_the_gpu_that_is_not_here_is_indexed(index):
    """Through no C++ that asks for a device guard; of a mask the length follows from data."""
    here = torch.arange(60.0).reshape(3, 4, 5)
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)

    def there(tensor):
        made = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        return FakeTensor(mode, made, simulated.DEVICE)

    moved = tree_map(lambda one: there(one) if isinstance(one, torch.Tensor) else one, index)
    with simulated.gpu_stand_in(), mode:
        made = there(here)[moved]
    wanted = here[index]
    assert made.device == simulated.DEVICE
    assert made.ndim == wanted.ndim
    known = [(one, other) for one, other in zip(made.shape, wanted.shape, strict=True) if isinstance(one, int)]
    assert all(one == other for one, other in known)
    assert len(known) == made.ndim - any(
        isinstance(one, torch.Tensor) and one.dtype == torch.bool for one in tree_leaves(index)
    )
    if len(known) == made.ndim:
        assert made.stride() == wanted.stride()


def test_a_tensor_on_the_gpu_that_is_not_here_tells_its_nonzero_places_and_takes_no_values():
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with simulated.gpu_stand_in(), mode:
        tensor = FakeTensor(mode, torch.empty(4, 5, device="meta"), simulated.DEVICE)
        assert tensor.nonzero().shape[1] == torch.nonzero(tensor).shape[1] == 2
        assert [one.ndim for one in tensor.nonzero(as_tuple=True)] == [1, 1]
        tensor[0] = 1.0
        assert tensor.copy_(tensor) is tensor


def test_what_a_graph_returns_lies_as_in_eager_mode():
    """Inductor lays out results for itself with gaps between the rows, but not those that it hands over."""
    one = captured_anew("unfolded", "simulated")
    assert "empty_strided_cuda((2, 3, 3, 3, 8, 7), (1512, 504, 168, 56, 7, 1)" in one.code(one.capture["graphs"][0])


def test_a_model_that_only_a_gpu_can_run_trains_where_something_requires_a_gradient():
    pytest.importorskip("triton")
    made = watched("own_activation_train", "simulated", CASES)
    assert [lowered["backward"] for lowered in made["lowered"]] == [False, True]
    own = load("own_activation_train", CASES)
    model, inputs = sys.modules["zoo_own_activation_train"].make_without_a_parameter()
    with pytest.raises(LabError, match="something that requires a gradient"):
        watch_model(model.train(), inputs, target="simulated", train=own.train, machine_code=False)


def test_made_up_results_require_gradients_as_the_graphs_do_and_may_be_changed_in_place():
    graph = torch.fx.Graph()
    values = [torch.zeros(3, requires_grad=True) * 1, torch.zeros(2), torch.zeros(2, dtype=torch.int64)]
    nodes = [graph.placeholder(f"given_{number}") for number in range(len(values))]
    for node, value in zip(nodes, values, strict=True):
        node.meta["example_value"] = value
    graph.output(tuple(nodes))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    made = simulated.made_up_results(module)
    assert [one.requires_grad for one in made] == [True, False, False]
    made[0].add_(1).sum().backward()
    with torch.no_grad():
        assert not any(one.requires_grad for one in simulated.made_up_results(module))
