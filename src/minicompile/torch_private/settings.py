"""Inductor's settings: what each is where nobody sets it, which of them are switches, and which a compile asks for."""

import enum
import os
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Union
from unittest import mock

from minicompile.torch_private.names import owner


def entries() -> dict[str, Any]:
    """Each setting of Inductor's by its name, `triton.nested_reduction` say, with its default and its type.

    A name that stands for another setting is none, nor is one that torch keeps to itself, which begins with `_`.
    """
    held = owner("settings")._config
    return {
        name: entry
        for name, entry in held.items()
        if entry.alias is None and not any(part.startswith("_") for part in name.split("."))
    }


def defaults() -> dict[str, str]:
    """What each setting is where nobody sets it, as Python writes it, but for functions and paths."""
    held = {name: entry.default for name, entry in entries().items()}
    return {name: repr(value) for name, value in held.items() if not (callable(value) or _is_path(value))}


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and os.path.isabs(value)


def switches() -> dict[str, list[Any]]:
    """The settings that are one of a few values, by their types: of each, the values that are not its default."""
    found = {name: (now(name), _values(entry.value_type)) for name, entry in entries().items()}
    others = {name: [one for one in all_ if one is not is_ and one != is_] for name, (is_, all_) in found.items()}
    return {name: values for name, values in others.items() if values}


def now(name: str) -> Any:
    """What a setting is now."""
    holder = owner("config")
    for part in name.split("."):
        holder = getattr(holder, part)
    return holder


def _values(kind: Any) -> list[Any]:
    """All values of a type that has a few; none of one that has more."""
    if kind is bool:
        return [False, True]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return list(kind)
    if typing.get_origin(kind) is Literal:
        return list(typing.get_args(kind))
    if typing.get_origin(kind) in (Union, types.UnionType):
        parts = [[None] if part is types.NoneType else _values(part) for part in typing.get_args(kind)]
        return [one for part in parts for one in part] if all(parts) else []
    return []


@contextmanager
def asked() -> Iterator[set[str]]:
    """The names of Inductor's settings that are read while the block runs."""
    config, kind, names = owner("config"), owner("setting_read"), set[str]()
    read = kind.__getattr__

    def noted(self: Any, name: str) -> Any:
        if self is config:
            names.add(name)
        return read(self, name)

    with mock.patch.object(kind, "__getattr__", noted):
        yield names
