"""Patches of torch's private functions that may be absent: what is missing is named, and the rest goes on."""

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any
from unittest import mock

from minicompile.torch_private.names import NAMES, owner
from minilab import LabError


class Hooks:
    """Wrappers around private functions, entered for the time of a compile.

    Attributes:
        absent: keys of `NAMES` that the installed torch lacks, of those that were asked for.
    """

    def __init__(self) -> None:
        self.absent: list[str] = []

    def around(self, name: str, wrap: Callable[[Any], Any]) -> Iterator[AbstractContextManager]:
        """The patch that puts `wrap(original)` in the place of what `NAMES[name]` names; none where it is absent."""
        try:
            holder = owner(name)
        except LabError:
            self.absent.append(name)
            return
        attribute = NAMES[name].path.partition(":")[2].rpartition(".")[2]
        own = vars(holder).get(attribute, getattr(holder, attribute))
        if isinstance(own, classmethod):
            yield mock.patch.object(holder, attribute, classmethod(wrap(own.__func__)))
        else:
            yield mock.patch.object(holder, attribute, wrap(own))


class _Loaded:
    """torch's modules that are loaded; there are thousands of modules, of which only those since last time are new."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._found: dict[str, Any] = {}

    def modules(self) -> dict[str, Any]:
        """By name, the first loaded first."""
        paths = list(sys.modules)  # in one go: another thread may import
        new = list(itertools.takewhile(lambda path: path != self._last, reversed(paths)))
        self._found |= {path: sys.modules.get(path) for path in reversed(new) if path.startswith("torch.")}
        self._last = paths[-1]
        return self._found


_LOADED = _Loaded()


def loaded_modules(package: str) -> list[Any]:
    """The modules below torch, or a package of its, that are loaded: each may have imported a function by its name."""
    return [module for path, module in _LOADED.modules().items() if path.startswith(f"{package}.")]


def aside(record: Callable) -> Callable:
    """The same function, which only looks: where it fails, the compile goes on without what it would have recorded."""

    @wraps(record)
    def recorded(*args, **kwargs):
        try:
            return record(*args, **kwargs)
        except Exception:  # of whatever kind: it is the record's, not the compile's
            return None

    return recorded
