"""Operators that only a GPU has, against what PyTorch has on a CPU and what autograd makes of that."""

from typing import Any

import pytest
import torch
from test_run_beside import lives
from torch import nn

from minicompile.verifying.stand_ins import gru_cell, gru_cell_backward, lstm_cell, lstm_cell_backward, on_this_machine
from minicompile.verifying.verify import ties_of


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


# by kind what it takes beside query, key and value, and its backward pass beside the gradient and them: what it left
ATTENTION: dict[str, tuple[dict, tuple]] = {
    "efficient": ({"attn_bias": None, "compute_log_sumexp": True}, ("bias", 0, 1, 2, 3, 0.0, [True] * 4, "causal")),
    "flash": ({}, (0, 1, 2, 3, 4, 5, 0.0, "causal", 6, 7)),
    "cudnn": ({"attn_bias": None, "compute_log_sumexp": True}, (0, 1, 6, 7, "bias", 2, 3, 4, 5, 0.0, "causal")),
}


def fused(kind: str, side: str = "") -> Any:
    return getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_attention{side}").default


@pytest.mark.parametrize(("kind", "causal", "biased"), [(one, one != "flash", False) for one in ATTENTION]
                         + [(one, False, one == "efficient") for one in ATTENTION])  # fmt: skip
def test_fused_attention(kind, causal, biased):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, length, 3, 8).transpose(1, 2).requires_grad_() for length in (5, 7, 7))
    bias = torch.randn(2, 3, 5, 7, requires_grad=True) if biased else None
    wanted = nn.functional.scaled_dot_product_attention(query, key, value, bias, is_causal=causal, scale=0.3)
    grad, leaves = torch.randn(2, 3, 5, 8), [query, key, value, *([bias] if biased else [])]
    given, left = ATTENTION[kind]
    options = given | ({"attn_bias": bias} if biased else {}) | {"is_causal": causal, "scale": 0.3}
    with torch.no_grad():
        made = on_this_machine(fused(kind))(query, key, value, **options)
        known = {"bias": bias, "causal": causal}
        rest = [known[one] if isinstance(one, str) else made[one] if type(one) is int else one for one in left]
        found = on_this_machine(fused(kind, "_backward"))(grad, query, key, value, *rest, scale=0.3)
    torch.testing.assert_close(made[0], wanted)
    torch.testing.assert_close(found[: len(leaves)], torch.autograd.grad(wanted, leaves, grad))
    scores = query @ key.transpose(-2, -1) * 0.3 + (bias if biased else 0.0)
    scores = scores.masked_fill(torch.ones(5, 7).triu(1).bool(), -torch.inf) if causal else scores
    torch.testing.assert_close(made[1].flatten(2)[..., :5], scores.logsumexp(-1))


@pytest.mark.parametrize("kind", ATTENTION)
def test_a_graph_with_fused_attention_is_run(kind):
    """In the layout that the code asserts; what is dropped at random is not made up."""
    given, operator = tuple(ATTENTION[kind][0].values()), fused(kind)
    q, k, v = (torch.randn(2, 4, 6, 8, dtype=torch.bfloat16) for _ in range(3))
    (live,) = lives(lambda q, k, v: operator(q.sin(), k, v, *given)[0].cos(), q, k, v)
    ties = ties_of(live)
    assert {one for call in ties["calls"] for one in call["computes"]} >= {"sin", "cos"}
    (live,) = lives(lambda q, k, v: operator(q.sin(), k, v, *given, 0.5)[0].cos(), q, k, v)
    assert (ties_of(live)["refused"] or {}).get("code") == "random"


def test_other_operators_are_their_own():
    assert on_this_machine(torch.ops.aten.mm.default) is torch.ops.aten.mm.default
    assert on_this_machine(torch.ops.aten._thnn_fused_gru_cell.default) is gru_cell
