"""Cells of GRU and LSTM that only a GPU has, against PyTorch's modules and what autograd makes of those."""

import pytest
import torch
from torch import nn

from minicompile.verifying.stand_ins import gru_cell, gru_cell_backward, lstm_cell, lstm_cell_backward, on_this_machine


@pytest.mark.parametrize("bias", [True, False])
def test_gru_cell(bias):
    torch.manual_seed(0)
    cell, x, hx = nn.GRUCell(5, 7, bias).double(), torch.randn(3, 5).double(), torch.randn(3, 7).double()
    biases = (cell.bias_ih, cell.bias_hh) if bias else ()
    gates = [(x @ cell.weight_ih.t()).requires_grad_(), (hx @ cell.weight_hh.t()).requires_grad_()]
    hx.requires_grad_()
    made, workspace = gru_cell(*gates, hx, *biases)
    torch.testing.assert_close(made, cell(x, hx))
    grad = torch.randn(3, 7).double()
    wanted = torch.autograd.grad(made, [*gates, hx, *biases], grad)
    found = gru_cell_backward(grad, workspace, bias)
    torch.testing.assert_close(found[: len(wanted)], wanted)


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_cell(bias):
    torch.manual_seed(0)
    cell, x, hx, cx = nn.LSTMCell(5, 7, bias).double(), *(torch.randn(3, size).double() for size in (5, 7, 7))
    biases = (cell.bias_ih, cell.bias_hh) if bias else (None, None)
    gates = [(x @ cell.weight_ih.t()).requires_grad_(), hx @ cell.weight_hh.t()]
    cx.requires_grad_()
    hy, cy, workspace = lstm_cell(*gates, cx, *biases)
    torch.testing.assert_close((hy, cy), cell(x, (hx, cx)))
    grads = torch.randn(3, 7).double(), torch.randn(3, 7).double()
    wanted = torch.autograd.grad((hy, cy), [gates[0], cx, *biases[:bias]], grads)
    found = lstm_cell_backward(*grads, cx, cy, workspace, bias)
    torch.testing.assert_close(found[: len(wanted)], wanted)


def test_other_operators_are_their_own():
    assert on_this_machine(torch.ops.aten.mm.default) is torch.ops.aten.mm.default
    assert on_this_machine(torch.ops.aten._thnn_fused_gru_cell.default) is gru_cell
