"""Operations are taken apart as on a GPU, and as ever when the compile is over."""

import pytest
import torch
from torch import nn
from torch._inductor.decomposition import select_decomp_table

from minicompile.capturing import capture
from minicompile.torch_private.gpu_decompositions import _asking, composites, table, traced_on

aten = torch.ops.aten


class Loss(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        made = self.inner(x)
        return (made[0] if isinstance(made, tuple) else made).float().square().mean()


def nodes(model, x, target, train=True):
    """The calls of the ATen graphs."""
    graphs = capture(Loss(model), x, target=target, train=train)["graphs"]
    return [node for graph in graphs for node in graph["nodes"] if node["op"] == "call_function"]


def targets(model, x, target, train=True):
    return [node["target"] for node in nodes(model, x, target, train)]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    ("cell", "fused"),
    [
        (nn.LSTMCell(8, 6), "aten._thnn_fused_lstm_cell.default"),
        (nn.GRUCell(8, 6), "aten._thnn_fused_gru_cell.default"),
        (nn.GRUCell(8, 6, bias=False), "aten._thnn_fused_gru_cell.default"),
    ],
)
def test_a_cell_is_one_operation(cell, fused, train):
    simulated, cpu = (targets(cell, torch.randn(3, 8), target, train) for target in ("simulated", "cpu"))
    assert fused in simulated
    assert "aten.sigmoid.default" not in simulated
    assert fused not in cpu


def test_a_product_of_two_vectors_is_left_to_the_library_where_the_cpu_writes_it_out():
    linear, x = nn.Linear(16, 1, bias=False), torch.randn(1, 16)
    simulated, cpu = (targets(linear, x, target, train=False) for target in ("simulated", "cpu"))
    assert {"aten.mm.default", "aten.sum.dim_IntList"} & set(simulated) == {"aten.mm.default"}
    assert {"aten.mm.default", "aten.sum.dim_IntList"} & set(cpu) == {"aten.sum.dim_IntList"}


def test_an_lstm_cell_without_biases_is_captured():
    assert targets(nn.LSTMCell(8, 6, bias=False), torch.randn(3, 8), "simulated")


def test_the_kernels_of_an_rms_normalisation_are_named_after_the_one_operation_that_it_is():
    made = {
        target: [
            kernel["name"]
            for graph in capture(Loss(nn.RMSNorm(64)), torch.randn(5, 64), target=target, train=True)["graphs"]
            for kernel in graph["kernels"]
        ]
        for target in ("cpu", "simulated")
    }
    assert any("_fused_rms_norm_backward" in name for name in made["simulated"])
    assert not any("_fused_rms_norm" in name for name in made["cpu"])


def test_statistics_that_a_backward_pass_takes_are_rounded_on_the_cpu_alone():
    x = torch.randn(5, 16).to(torch.bfloat16)
    made = {target: nodes(nn.LayerNorm(16).to(torch.bfloat16), x, target) for target in ("simulated", "cpu")}
    rounded = {target: [one for one in found if one["size"] == [5, 1] and one["dtype"] == "bfloat16"]
               for target, found in made.items()}  # fmt: skip
    assert rounded["cpu"]
    assert not rounded["simulated"]


def test_a_group_normalisation_copies_an_input_whose_channels_come_last():
    x = torch.randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last)
    assert targets(nn.GroupNorm(2, 8), x, "simulated", train=False)[0] == "aten.clone.default"
    assert "aten.clone.default" not in targets(nn.GroupNorm(2, 8), x, "cpu", train=False)


def test_decompositions_answer_for_the_gpu_only_while_they_are_asked_to():
    product, row, column = select_decomp_table()[aten.mm.default], torch.rand(1, 50), torch.rand(50, 1)
    assert torch.allclose(product(row, column), row @ column)
    with traced_on("cpu"):
        assert product(row, column) is NotImplemented
        with traced_on("cuda"):
            assert torch.allclose(product(row, column), row @ column)
        assert product(row, column) is NotImplemented
    assert torch.allclose(product(row, column), row @ column)


def test_every_decomposition_that_only_compares_with_a_device_is_found():
    found = {function.__name__ for function in _asking()}
    assert {"mm", "addmm", "bmm", "native_group_norm", "native_batch_norm_helper", "grid_sampler_2d"} <= found
    assert not {"full", "scalar_tensor", "tensor", "tensor_split"} & found  # these make tensors, or want indices there
    for function, codes in _asking().items():
        assert function.__code__ is codes["cuda"]
        assert codes["cpu"].co_consts != codes["cuda"].co_consts, function


def test_eager_cells_are_what_they_were_after_a_compile():
    cell, x = nn.LSTMCell(8, 6), torch.randn(3, 8)
    before = cell(x)
    with composites(), pytest.raises(NotImplementedError):
        cell(x)
    for one, other in zip(before, cell(x), strict=True):
        assert torch.equal(one, other)
    assert torch.compile(nn.GRUCell(8, 6), backend="aot_eager")(x).shape == (3, 6)


def test_the_table_replaces_what_it_has_and_adds_nothing():
    assert table().keys() == select_decomp_table().keys()


def test_a_batch_of_one_product_is_a_product():
    def product(a, b):
        return (a @ b).relu()

    [graph] = capture(product, (torch.randn(1, 6, 8), torch.randn(1, 8, 9)), target="simulated")["graphs"]
    assert "aten.mm.default" in [node["target"] for node in graph["nodes"]]


def test_numbers_in_a_row_are_counted_in_float32():
    def row(x):
        return torch.arange(10.0, device=x.device) + x

    made = {
        target: {
            node["dtype"] for graph in capture(row, torch.randn(10), target=target)["graphs"] for node in graph["nodes"]
        }
        for target in ("simulated", "cpu")
    }
    assert "float64" in made["cpu"]
    assert "float64" not in made["simulated"]
