"""Finds the numbers in what a model returns, whatever it is."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

DEEPEST = 8  # objects within objects


def numbers_of(value: Any, name: str = "output", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Yield every number inside a value, as a tensor, with a name that says where it sits.

    Tensors, and Python's numbers, in mappings, sequences, sets of one, dataclasses and any object's attributes: of a
    namespace, a Hugging Face output, a `torch.distributions` distribution. An iterator is left alone, since reading it
    would use it up.
    """
    if isinstance(value, Tensor) and value.is_nested:
        yield from numbers_of(list(value.detach().unbind()), name, depth + 1)
    elif isinstance(value, Tensor):
        yield name, value.detach()
    elif isinstance(value, bool | int):
        yield name, torch.tensor(value)
    elif isinstance(value, float | complex):
        yield name, torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)
    elif value is None or depth > DEEPEST or isinstance(value, str | bytes | type | nn.Module):
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from numbers_of(item, f"{name}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from numbers_of(item, f"{name}[{index}]", depth + 1)
    else:
        for key, item in _attributes(value):
            yield from numbers_of(item, f"{name}.{key}", depth + 1)


def _attributes(value: Any) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    if isinstance(value, Iterator) or callable(value):
        return []
    return sorted(vars(value).items()) if hasattr(value, "__dict__") else []


def shapes_of(value: Any) -> dict[str, str]:
    """Write what a value holds as name -> `float32 [6, 8]`."""
    tensors = ((name, tensor) for name, tensor in numbers_of(value, "batch"))
    return {name: f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for name, t in tensors}
