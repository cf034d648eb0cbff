"""Lies in the modules within a compiled one, and hears when Python calls them.

Compiled code has these modules inlined and comes past no notice. Python does: where a graph breaks, where Dynamo has
given a frame up, and where a method of the model, or its user, calls `forward` or a part instead of the model.
"""

import dis
import inspect
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Any, Protocol

import torch
from torch import nn

from minicompile.torch_private import running
from minicompile.torch_private.tensors import COMPILED_CALL, uncompiled_call

# Dynamo looks at each frame within a compiled call, and has nothing to look for in this one.
_uncompiled_call = torch.compiler.disable(uncompiled_call)


class Listener(Protocol):
    """Who hears of calls; neither method may be looked at by Dynamo."""

    def called(self, notice: "Notice") -> Any:
        """Hear of a call that begins; what is returned, other than None, is handed on to `returned`."""

    def returned(self, notice: "Notice", look: Any, done: bool) -> None:
        """Hear of its end; `done` where nothing was raised."""


class Notice:
    """What lies in a module, in torch's place for a compiled call: says that it was called, and calls the module.

    It has no `__dict__`: who puts a model back as it was must not put back what was heard.
    """

    __slots__ = ("__weakref__", "calls", "hooks", "listener", "module", "name", "part")

    def __init__(self, listener: Listener, name: str, part: Any, module: nn.Module) -> None:
        self.listener, self.name, self.part, self.module = listener, name, part, weakref.ref(module)
        self.calls = 0  # round the compiled code
        self.hooks: tuple[int, ...] | None = None  # when the part around it was compiled
        running.pass_over(Notice.__call__)

    def __call__(self, *args: object, **kwargs: object) -> object:
        if torch.compiler.is_compiling():  # traced by a forward that writes `part.__call__(x)`
            return uncompiled_call(self.module())(*args, **kwargs)
        look, done = self.listener.called(self), False
        try:
            output = _uncompiled_call(self.module())(*args, **kwargs)
            done = True
            return output
        finally:
            if look is not None:
                self.listener.returned(self, look, done)

    def __bool__(self) -> bool:
        return False  # the module is not compiled by itself, though there is something in that place

    def __reduce__(self) -> tuple:
        return type(None), ()  # a class that pickles all of its `__dict__` gets what an eager module has there

    @property
    def lies(self) -> bool:
        """Whether it has not been picked up, nor replaced by somebody else's compiled call."""
        module = self.module()
        return module is not None and vars(module).get(COMPILED_CALL) is self

    def lie(self) -> None:
        """Lie down in the module."""
        module = self.module()
        if module is not None:
            vars(module)[COMPILED_CALL] = self

    def pick_up(self) -> None:
        """Leave the module as it was."""
        module = self.module()
        if module is not None and self.lies:
            del vars(module)[COMPILED_CALL]


@dataclass(frozen=True)
class RoundCall:
    """Calls that go round the compiled code: `called` is `forward`, that of a part, or a part; `by` is who calls it."""

    called: str
    by: str

    def __str__(self) -> str:
        return f"`{self.by}` calls `{self.called}` itself; its calls are eager"


def round_call(notice: Notice, root: nn.Module, part: str) -> RoundCall:
    """Find out from the stack what was called past the compiled code of a part, and by whom."""
    names = {id(module): name for name, module in root.named_modules()}
    entered, direct, by = notice.name, False, ""
    for frame in running.frames_outward():
        code = frame.f_code
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        name = names.get(id(owner))
        if code.co_name == "forward" and name is not None and lies_in(name, part):
            entered, direct, by = name, True, ""
        elif not by and not running.is_machinery(code):
            place = f"{Path(code.co_filename).name}:{frame.f_lineno}"
            by = place if code.co_name == "<module>" else f"{code.co_qualname} ({place})"
            if name is not None and hasattr(type(owner), code.co_name):
                by = f"{type(owner).__name__}.{code.co_name}"
    if direct and entered == part:
        return RoundCall(f"{entered}.forward" if entered else "forward", by)
    return RoundCall(entered, by)


def methods_that_call_forward(kind: type) -> Iterator[RoundCall]:
    """Read in the methods of a class which of them call its `forward`: for one in which no notice can lie."""
    for base in kind.__mro__[: kind.__mro__.index(nn.Module)]:
        for name, value in vars(base).items():
            code = getattr(inspect.unwrap(value) if callable(value) else None, "__code__", None)
            if (
                name != "forward"
                and code is not None
                and code.co_argcount
                and _calls_forward(code, code.co_varnames[0])
            ):
                yield RoundCall("forward", f"{kind.__name__}.{name}")


def _calls_forward(code: CodeType, owner: str) -> bool:
    """Whether code, or code within it such as a comprehension, reads the attribute `forward` of the name `owner`."""
    names = [instruction.argval for instruction in dis.get_instructions(code)]
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return (owner, "forward") in list(pairwise(names)) or any(_calls_forward(one, owner) for one in inner)


def lies_in(name: str, other: str) -> bool:
    """Whether a module is another or lies within it, by qualified names."""
    return other in ("", name) or name.startswith(f"{other}.")
