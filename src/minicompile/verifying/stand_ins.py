"""Operators of ATen's that a GPU alone has, for the graph and for the code that calls them: attention, GRU, LSTM."""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from minicompile.torch_private.gpu_decompositions import named_arguments
from minicompile.verifying.blocks import Unable


def _gates(input_gates: Tensor, hidden_gates: Tensor, *biases: Tensor | None, parts: int) -> list[tuple[Tensor, ...]]:
    given = [*biases, None, None]
    sides = [one if bias is None else one + bias for one, bias in zip((input_gates, hidden_gates), given, strict=False)]
    return [one.chunk(parts, 1) for one in sides]


def gru_cell(input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor]:
    """The new state, and what the backward pass wants of it."""
    (reset_in, update_in, new_in), (reset_by, update_by, new_by) = _gates(input_gates, hidden_gates, *biases, parts=3)
    reset, update = (reset_in + reset_by).sigmoid(), (update_in + update_by).sigmoid()
    new = (new_in + reset * new_by).tanh()
    return new + update * (hx - new), torch.cat([reset, update, new, hx, new_by], 1)


def gru_cell_backward(grad: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    reset, update, new, hx, new_by = workspace.chunk(5, 1)
    to_new = grad * (1 - update) * (1 - new * new)
    to_reset = to_new * new_by * reset * (1 - reset)
    to_update = grad * (hx - new) * update * (1 - update)
    by_input, by_hidden = (torch.cat([to_reset, to_update, one], 1) for one in (to_new, to_new * reset))
    biases = (by_input.sum(0), by_hidden.sum(0)) if has_bias else (None, None)
    return by_input, by_hidden, grad * update, *biases


def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, *biases: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The new state, the new cell, and what the backward pass wants of them."""
    both = _gates(input_gates, hidden_gates, *biases, parts=4)
    enter, forget, new, leave = (one + other for one, other in zip(*both, strict=True))
    enter, forget, new, leave = enter.sigmoid(), forget.sigmoid(), new.tanh(), leave.sigmoid()
    cy = forget * cx + enter * new
    return leave * cy.tanh(), cy, torch.cat([enter, forget, new, leave], 1)


def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor | None, ...]:
    enter, forget, new, leave = workspace.chunk(4, 1)
    by_state = torch.zeros_like(cy) if grad_hy is None else grad_hy
    shown = cy.tanh()
    to_cell = by_state * leave * (1 - shown * shown) + (0 if grad_cy is None else grad_cy)
    gates = [
        to_cell * new * enter * (1 - enter),
        to_cell * cx * forget * (1 - forget),
        to_cell * enter * (1 - new * new),
        by_state * shown * leave * (1 - leave),
    ]
    made = torch.cat(gates, 1)
    return made, to_cell * forget, made.sum(0) if has_bias else None


def _attended(causal: bool, scale: float | None, *given: Tensor) -> tuple[Tensor, Tensor]:
    """Attention written out, in float32 at least, and the logarithm of each row's sum of exponentials.

    Args:
        causal: whether a query sees no later key.
        scale: of the scores; None, 1 / sqrt of the features.
        *given: the query, the key, the value, and what is added to the scores.
    """
    query, key, value, *bias = given
    query, key, value = (one.to(torch.promote_types(one.dtype, torch.float32)) for one in (query, key, value))
    key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = sum(bias, scores)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def _laid(value: Tensor | None, like: Any) -> Any:
    """A result in the dtype and the layout that an operator says it has; what it alone knows is zero."""
    if not isinstance(like, Tensor):
        return like
    made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).zero_()
    if value is not None:  # rows may be filled up, and have an axis more
        made.view(made.shape[: value.ndim])[tuple(map(slice, value.shape))] = value.to(made.dtype)
    return made


def attention(operator: Any) -> Callable[..., tuple]:
    """What stands in for one of torch's fused attentions, or for its backward pass.

    Raises:
        Unable: of what it returns, that it drops some at random.
    """

    def run(*args: Any, **kwargs: Any) -> tuple:
        given = named_arguments(operator, args, kwargs)
        if given.get("dropout_p"):
            raise Unable("random", str(operator))
        how = given.get("is_causal", False), given.get("scale")
        leaves = [given[name] for name in ("query", "key", "value", "attn_bias") if given.get(name) is not None]
        results: tuple[Tensor, ...]
        if next(iter(given)).startswith("grad"):
            leaves = [one.detach().requires_grad_() for one in leaves]
            with torch.enable_grad():
                out, _ = _attended(*how, *leaves)
            results = torch.autograd.grad(out, leaves, args[0].to(out.dtype))
        else:
            results = _attended(*how, *leaves)
        bare = {name: it.detach().to("meta") if isinstance(it, Tensor) else it for name, it in given.items()}
        layouts = operator(**bare)
        return tuple(_laid(value, like) for value, like in zip_longest(results, layouts))

    return run


FUSED = [f"_scaled_dot_product_{kind}_attention" for kind in ("efficient", "flash", "cudnn")]
STAND_INS: dict[str, Callable[..., Any]] = {
    "aten._thnn_fused_gru_cell.default": gru_cell,
    "aten._thnn_fused_gru_cell_backward.default": gru_cell_backward,
    "aten._thnn_fused_lstm_cell.default": lstm_cell,
    "aten._thnn_fused_lstm_cell_backward_impl.default": lstm_cell_backward,
    **{
        f"aten.{name}.default": attention(getattr(torch.ops.aten, name).default)
        for kind in FUSED
        for name in (kind, f"{kind}_backward")
        if hasattr(torch.ops.aten, name)
    },
}


def on_this_machine(operator: Any) -> Any:
    """An operator, or what stands in for it here."""
    return STAND_INS.get(str(operator), operator)
