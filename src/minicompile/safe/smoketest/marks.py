"""Hands the marks of `torch._dynamo.mark_dynamic` on from the sample batch to the first batch that is compiled for.

The smoketest compiles in a process of its own, so that the model's first call compiles here, for the shapes that it
gets. Dimensions that were marked on the sample would be taken for fixed ones.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from minicompile.state.batches import split_batch

Marks = dict[str, dict[str, Any]]  # argument of forward -> attributes of the tensor
PREFIX = "_dynamo_"
DYNAMIC = f"{PREFIX}dynamic_indices"  # the dimensions that `mark_dynamic` marked


def marks_of(model: nn.Module, batch: Any) -> Marks:
    """Find the marks on the tensors that a batch hands to `forward`, by argument."""
    arguments, keywords, _ = split_batch(model, batch)
    found = {}
    for name, value in _bound(model, arguments, keywords).items():
        marks = {key: mark for key, mark in vars(value).items() if key.startswith(PREFIX)}
        if marks:
            found[name] = marks
    return found


def marked_once(model: nn.Module, marks: Marks, call: Callable, put: Callable[[Callable], None]) -> None:
    """Have the next call of a model mark its arguments; `put` is given what to call the model through, twice."""

    def first(*args: object, **kwargs: object) -> object:
        put(call)
        with _marked(_bound(model, args, kwargs), marks):
            return call(*args, **kwargs)

    put(first)


def _bound(model: nn.Module, arguments: tuple, keywords: dict) -> dict[str, Tensor]:
    """The tensors among a call's arguments, by the name that `forward` gives them."""
    try:
        bound = inspect.signature(model.forward).bind(*arguments, **keywords).arguments
    except TypeError:  # a call that does not fit fails on its own
        return {}
    return {name: value for name, value in bound.items() if isinstance(value, Tensor)}


@contextmanager
def _marked(tensors: dict[str, Tensor], marks: Marks) -> Iterator[None]:
    """Put the marks on tensors that have none of their own; one of size 1 cannot vary, and takes none."""
    taken = []
    for name, tensor in tensors.items():
        dims = marks.get(name, {}).get(DYNAMIC, ())
        sizes = [tensor.shape[dim] for dim in dims if dim < tensor.ndim]
        if sizes and min(sizes) > 1 and not any(key.startswith(PREFIX) for key in vars(tensor)):
            vars(tensor).update(marks[name])
            taken.append((tensor, marks[name]))
    try:
        yield
    finally:
        for tensor, attributes in taken:
            for key in attributes:
                vars(tensor).pop(key, None)
