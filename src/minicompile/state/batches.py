"""Hands a batch to a model and a loss, as the caller's own call would, and copies it with all that it is.

`split_batch` is the one way in which the lab hands a batch over (`maybe_compile`, `health`, `benchmark`, `capture`):

- a tensor, or an object of a class of one's own, goes in as the only argument;
- a mapping goes in by name where `forward` asks for its keys, and whole where it does not;
- a tuple or list goes in as positional arguments, as far as `forward` takes them;
- a tuple with named fields goes in whole where `forward` has one parameter for it, and apart where the parameters have
  the names of its fields, or `forward` requires several.

What `forward` does not take is the loss's.
"""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from minicompile.state.memory import copied, is_strided, storage_of
from minicompile.state.reach import HOOKS, attributes_of, is_exact, is_generator, key_name, walk
from minilab import LabError

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# What is looked at as a whole: numbers, texts, and what is no data
OPAQUE = (str, bytes, bytearray, int, float, complex, type(None), type, range, Iterator, nn.Module, ModuleType,
          FunctionType, MethodType, BuiltinFunctionType)  # fmt: skip


def leaves_of(value: Any, name: str = "output", within: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield everything inside a value with a name that says where it sits: containers first, each before what it holds.

    Mappings, collections, dataclasses and any object's attributes are entered, those of a tensor or a list too: of a
    namespace, a Hugging Face output, a `torch.distributions` distribution. An iterator is left alone, since reading it
    would use it up.
    """
    yield name, value
    if isinstance(value, OPAQUE) or id(value) in within or is_exact(value):
        return
    held: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        held = [(key_name(key), item) for key, item in value.items()]
    elif isinstance(value, Collection) and not isinstance(value, Tensor):
        held = [(f"[{index}]", item) for index, item in enumerate(value)]
    named = attributes_of(value)
    if isinstance(value, Tensor):  # what the user has set on it, and not torch
        named = {key: item for key, item in named.items() if not key.startswith("_")}
    if dataclasses.is_dataclass(value):
        named |= {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    held += [(f".{key}", item) for key, item in sorted(named.items())]
    for place, item in held:
        yield from leaves_of(item, f"{name}{place}", (*within, id(value)))


def tensors_of(value: Any, name: str = "output") -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor inside a value, with a name that says where it sits."""
    return ((place, leaf) for place, leaf in leaves_of(value, name) if isinstance(leaf, Tensor))


def storages_of(*held: Any) -> frozenset[tuple[str, int]]:
    """The memory of all tensors that values can get at."""
    found = (value for _, value in walk({str(number): one for number, one in enumerate(held)}))
    tensors = (one for one in found if isinstance(one, Tensor) and not nn.parameter.is_lazy(one) and is_strided(one))
    return frozenset(storage_of(tensor) for tensor in tensors if tensor.numel())


def copied_batch(batch: Any, elsewhere: frozenset[tuple[str, int]] = frozenset()) -> Any:
    """Copy a batch, so that what a call does to it spoils no later call.

    Containers and objects keep their classes and contents, a tensor that stands twice stands twice, and memory that
    tensors share is shared by their copies (`memory.copied`). What is not copied is handed over itself: modules,
    generators of random numbers, tensors with hooks, tensors in memory that the call can get at besides, and the whole
    of a batch with something in it that Python cannot copy.

    Args:
        elsewhere: that memory, the model's say, as `storages_of` gives it.
    """
    tensors = [value for _, value in walk({"batch": batch}) if isinstance(value, Tensor)]
    if isinstance(batch, Tensor) and not tensors:
        tensors = [batch]
    own = [tensor for tensor in tensors if not _stays(tensor, elsewhere)]
    memo: dict[int, Any] = {id(tensor): tensor for tensor in tensors}
    memo |= dict(zip(map(id, own), copied(own), strict=True))
    kept = [value for _, value in walk({"batch": batch}) if isinstance(value, nn.Module) or is_generator(value)]
    memo |= {id(value): value for value in kept}
    try:
        return copy.deepcopy(batch, memo)
    except Exception:  # whatever a class of the caller's raises at a copy
        return batch


def _stays(tensor: Tensor, elsewhere: frozenset) -> bool:
    if nn.parameter.is_lazy(tensor) or (is_strided(tensor) and tensor.numel() and storage_of(tensor) in elsewhere):
        return True
    return tensor.is_leaf and any(getattr(tensor, hook, None) for hook in HOOKS)


def parameters_of(function: Callable) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def split_batch(model: Callable, batch: Any) -> tuple[tuple, dict, Any]:
    """Split a batch into (positional arguments, keyword arguments, what the model leaves over for the loss).

    Raises:
        LabError: the batch is empty.
    """
    if not isinstance(batch, Mapping | list | tuple):
        return (batch,), {}, batch
    if not batch:
        raise LabError("the sample batch is empty; give a tensor, a tuple or a dictionary of tensors.")
    inner = getattr(model, "_orig_mod", model)
    try:
        parameters = parameters_of(getattr(inner, "forward", inner))
    except ValueError:  # a builtin without a signature
        return ((batch,), {}, batch) if isinstance(batch, Mapping) else (tuple(batch), {}, batch)
    if isinstance(batch, Mapping):
        names = {p.name for p in parameters if p.kind in (*POSITIONAL[1:], inspect.Parameter.KEYWORD_ONLY)}
        required = {p.name for p in parameters if p.name in names and p.default is inspect.Parameter.empty}
        takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        taken = {key: batch[key] for key in batch if key in names or (takes_all and isinstance(key, str))}
        return ((), taken, batch) if taken and required <= set(taken) else ((batch,), {}, batch)
    fields = getattr(batch, "_fields", None)
    if fields is not None and _goes_in_whole(batch, fields, parameters):
        return (batch,), {}, batch
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return tuple(batch), {}, batch
    count = sum(p.kind in POSITIONAL for p in parameters)
    left = batch[count:]
    return tuple(batch[:count]), {}, left[0] if len(left) == 1 else (left or batch)


def _goes_in_whole(batch: Any, fields: tuple[str, ...], parameters: list[inspect.Parameter]) -> bool:
    """Whether a tuple with named fields is one argument."""
    positional = [p for p in parameters if p.kind in POSITIONAL]
    if isinstance(batch, PackedSequence) or (positional and positional[0].annotation is type(batch)):
        return True
    required = [p.name for p in positional if p.default is inspect.Parameter.empty]
    return bool(positional) and len(required) <= 1 and positional[0].name not in fields


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
    named = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(named, Tensor):
        return named
    floating = [tensor for _, tensor in tensors_of(output) if tensor.is_floating_point()]
    for tensor in floating:
        if tensor.ndim == 0:
            return tensor
    if not floating:
        raise LabError("the model's output holds no floating-point tensor to take a loss from; give a loss_fn.")
    return torch.stack([tensor.float().square().mean() for tensor in floating]).sum()
