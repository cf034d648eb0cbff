"""Hands a batch to a model and a loss, be it a tensor, a tuple or a dictionary.

A tensor goes in as the only argument, a tuple or list as positional arguments as far as `forward` takes
them, a dictionary by name where `forward` asks for its keys and whole where it does not.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from minilab import LabError

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def tensors_of(value: Any, name: str = "output") -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor inside nested dictionaries, sequences and dataclasses, with a name that says where it sits."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors_of(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from tensors_of(item, f"{name}[{index}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tensors_of(getattr(value, field.name), f"{name}.{field.name}")


def clone_batch(batch: Any) -> Any:
    """Copy a batch into memory of its own, so that a model that writes into its input spoils no later step."""
    if isinstance(batch, Tensor):
        copy = batch.detach().clone().requires_grad_(batch.requires_grad)
        vars(copy).update(vars(batch))  # the marks of torch._dynamo.mark_dynamic are attributes
        return copy
    if isinstance(batch, dict):
        return type(batch)((key, clone_batch(value)) for key, value in batch.items())
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(clone_batch, batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map(clone_batch, batch))
    return batch


def parameters_of(function: Callable) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def split_batch(model: Callable, batch: Any) -> tuple[tuple, dict, Any]:
    """Split a batch into (positional arguments, keyword arguments, what the model leaves over for the loss).

    Raises:
        LabError: the batch is empty.
    """
    if isinstance(batch, Tensor) or not isinstance(batch, dict | list | tuple):
        return (batch,), {}, batch
    if not batch:
        raise LabError("the sample batch is empty; give a tensor, a tuple or a dictionary of tensors.")
    inner = getattr(model, "_orig_mod", model)
    parameters = parameters_of(getattr(inner, "forward", inner))
    if isinstance(batch, dict):
        names = {p.name for p in parameters if p.kind in (*POSITIONAL[1:], inspect.Parameter.KEYWORD_ONLY)}
        required = {p.name for p in parameters if p.name in names and p.default is inspect.Parameter.empty}
        takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        taken = {key: value for key, value in batch.items() if key in names or (takes_all and isinstance(key, str))}
        return ((), taken, batch) if taken and required <= set(taken) else ((batch,), {}, batch)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return tuple(batch), {}, batch
    count = sum(p.kind in POSITIONAL for p in parameters)
    left = batch[count:]
    return tuple(batch[:count]), {}, left[0] if len(left) == 1 else (left or batch)


def call_loss(loss_fn: Callable | None, output: Any, target: Any) -> Tensor:
    """Compute a step's loss: `loss_fn(output, target)`, `loss_fn(output)` if it takes one argument, or the model's own.

    `target` is what `split_batch` leaves over: the rest of a tuple, or the whole batch.
    """
    if loss_fn is None:
        return own_loss(output)
    function = loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn
    try:
        parameters = parameters_of(function)
    except ValueError:  # a builtin without a signature
        return loss_fn(output, target)
    takes_two = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters) or (
        sum(p.kind in POSITIONAL for p in parameters) > 1
        and [p for p in parameters if p.kind in POSITIONAL][1].default is inspect.Parameter.empty
    )
    return loss_fn(output, target) if takes_two else loss_fn(output)


def own_loss(output: Any) -> Tensor:
    """Find the loss in a model's output: `output.loss`, `output["loss"]`, a scalar; else the outputs' mean square.

    The mean square is no training objective: it gives every output a gradient, so that the backward pass of
    a model that returns logits is tried too.

    Raises:
        LabError: there is no floating-point tensor to take a loss from.
    """
    named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(named, Tensor):
        return named
    floating = [tensor for _, tensor in tensors_of(output) if tensor.is_floating_point()]
    for tensor in floating:
        if tensor.ndim == 0:
            return tensor
    if not floating:
        raise LabError("the model's output holds no floating-point tensor to take a loss from; give a loss_fn.")
    return torch.stack([tensor.float().square().mean() for tensor in floating]).sum()
