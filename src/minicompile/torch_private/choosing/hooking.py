"""Patches of torch's private functions that may be absent: what is missing is named, and the rest goes on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import lru_cache, wraps
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


def loaded_modules(package: str) -> list[Any]:
    """The modules below a package that are loaded; each of them may have imported a function by its name."""
    return _modules(package, len(sys.modules))


@lru_cache(maxsize=4)
def _modules(package: str, _loaded: int) -> list[Any]:
    """Looked for again once more are loaded: there are thousands."""
    return [module for path, module in list(sys.modules.items()) if path.startswith(f"{package}.")]


def aside(record: Callable) -> Callable:
    """The same function, which only looks: where it fails, the compile goes on without what it would have recorded."""

    @wraps(record)
    def recorded(*args, **kwargs):
        try:
            return record(*args, **kwargs)
        except Exception:  # of whatever kind: it is the record's, not the compile's
            return None

    return recorded
