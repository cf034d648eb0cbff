"""Counted traffic: what PyTorch's operations read and write, in multiples of the input's bytes."""

import pytest
import torch

from minikernel.exercise.traffic import count_traffic

X = torch.linspace(-1, 1, 24 * 50).view(24, 50)


@pytest.mark.parametrize(
    ("function", "reads", "writes", "operations"),
    [
        (lambda x: x + 1, 1, 1, ["aten::add.Tensor"]),
        (lambda x: torch.softmax(x, -1), 1, 1, ["aten::_softmax"]),
        (lambda x: x.T.view(-1, 24)[:, ::2].T, 0, 0, []),
        (lambda x: torch.empty_like(x), 0, 0, []),
        (lambda x: torch.empty_like(x).copy_(x), 1, 1, ["aten::copy_"]),
        (lambda x: torch.add(x, 1, out=torch.empty_like(x)), 1, 1, ["aten::add.out"]),
        (lambda x: x.sum(-1, keepdim=True), 1, 1 / 50, ["aten::sum.dim_IntList"]),
        (lambda x: x[:1].expand(24, 50).contiguous(), 1 / 24, 1, ["aten::clone"]),
        (lambda x: x[0:0] * 2, 0, 0, ["aten::mul.Tensor"]),
    ],
)
def test_each_operation_reads_its_operands_and_writes_its_result(function, reads, writes, operations):
    traffic = count_traffic(function, X)
    assert (traffic.reads, traffic.writes) == pytest.approx((reads, writes))
    assert traffic.operations == operations
    assert traffic.launches == 0
    assert traffic.moved == {name: pytest.approx([reads, writes]) for name in operations}
