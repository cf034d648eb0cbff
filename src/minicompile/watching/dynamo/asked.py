"""What torch.compile is asked to compile while a watch is on, and how often each of these is called as compiled.

What is asked for need not be compiled: a method may go round the compiled call, and a frame that has reached its limit
is compiled no more.
"""

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch

from minicompile.torch_private.names import lookup, owner
from minicompile.watching.choosing.hooking import aside

COMPILED_FUNCTION = "compile_wrapper"  # the frame of torch's that calls a function as compiled; it holds it as `fn`
COMPILED_AHEAD = "aot_compile"  # and the one that compiles it for inputs that are given, without a call
OURS = Path(__file__).parents[2]  # what called the model from here is none of its own frames
NOT_THE_USERS = (str(OURS), str(Path(torch.__file__).parent))


class Asked:
    """Fills a list with a record for each model or function that the default backend is asked to compile.

    Of each: `name`, `class`, the `file` and `line` of who asked, the line in which a function `begins`, `calls`, and
    whether it was `compiled`.
    """

    def __init__(self, records: list[dict]) -> None:
        self._records = records
        self._places: dict[int, tuple[Any, dict]] = {}  # by identity a weak reference, and the record

    def patches(self) -> Iterator[AbstractContextManager]:
        """The patches to enter for the time of a watch."""
        yield mock.patch.object(torch, "compile", self._noting(torch.compile))
        if (stance := lookup("stance")) is not None:
            yield mock.patch.object(owner("stance"), "_callback_from_stance", self._counting(stance))

    def compiled(self, subject: Any) -> None:
        """Note that a frame of what was asked for is compiled."""
        if (record := self._record(subject)) is not None:
            record["compiled"] = True

    def _record(self, subject: Any) -> dict | None:
        known, record = self._places.get(id(subject), (None, None))
        return record if held(known) is subject else None  # an identity may be another object's by now

    def _noting(self, original: Callable) -> Callable:
        @functools.wraps(original)
        def compiles(model: Any = None, **settings: Any) -> Any:
            if model is not None and settings.get("backend", "inductor") == "inductor" and not settings.get("disable"):
                self._note(unwrapped(model))
            return original(model, **settings)

        return compiles

    @aside
    def _note(self, subject: Any) -> None:
        if self._record(subject) is None:
            file, line = _asker()
            begins = getattr(getattr(subject, "__code__", None), "co_firstlineno", None)
            record = {**named(subject), "file": file, "line": line, "begins": begins, "calls": 0, "compiled": False}
            self._places[id(subject)] = weakly(subject), record
            self._records.append(record)

    def _counting(self, original: Callable) -> Callable:
        """In the place of what each call of something compiled begins with."""

        def callback_from_stance(callback: Any) -> Any:
            self._count(sys._getframe(1))
            return original(callback)

        return callback_from_stance

    @aside
    def _count(self, frame: FrameType) -> None:
        if frame.f_code.co_name == COMPILED_FUNCTION:
            record = self._record(unwrapped(frame.f_locals.get("fn")))
            if record is not None:
                record["calls"] += 1


def _asker() -> tuple[str | None, int | None]:
    """The file and line outside torch and the lab that is at work."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(NOT_THE_USERS):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else (None, None)


def unwrapped(found: Any) -> Any:
    """The function, or the object whose method it is, that torch.compile is given."""
    found = inspect.unwrap(found) if callable(found) else found
    return getattr(found, "__self__", found)


def held(known: Any) -> Any:
    """What `weakly` gave a reference to; None where it is no more."""
    return known() if isinstance(known, weakref.ref) else known


def weakly(subject: Any) -> Any:
    try:
        # To be watched must not keep a model alive.
        return weakref.ref(subject)
    except TypeError:
        return subject


def named(subject: Any) -> dict:
    if subject is None:
        return {"name": "model", "class": "model"}
    kind = type(subject).__qualname__
    if isinstance(subject, torch.nn.Module) or not callable(subject):
        return {"name": kind, "class": kind}
    return {"name": getattr(subject, "__name__", kind), "class": getattr(subject, "__qualname__", kind)}
