"""What torch tells of a call at run time: whether it found compiled code, and why it runs eager.

The names are those of `names.NAMES`. Nothing here is on the path of a call that nobody looks at.
"""

import dis
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, ClassVar

import torch
from torch import nn

from minicompile.torch_private.names import lookup, owner

COMPILED_FUNCTION = "compile_wrapper"  # the frame of torch's that calls a function as compiled
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")  # of a module
TORCH = os.path.dirname(torch.__file__)
OURS = (TORCH, os.path.dirname(os.path.dirname(__file__)))  # torch, and minicompile


class Hits:
    """Counts the frames of this thread that find compiled code whose guards hold, from `begin` to `end`."""

    _under_way: ClassVar[list["Hits"]] = []
    _lock = threading.Lock()
    _before: Callable[[bool], bool] | None = None  # torch's own hook, for ranks that evaluate guards together

    def begin(self) -> None:
        self.thread, self.count = threading.get_ident(), 0
        with Hits._lock:
            Hits._under_way.append(self)
            if len(Hits._under_way) == 1:
                Hits._before = owner("guard_hook").set_guard_complete_hook(_guards_done)

    def end(self) -> int:
        with Hits._lock:
            Hits._under_way.remove(self)
            if not Hits._under_way:
                owner("guard_hook").set_guard_complete_hook(Hits._before)
        return self.count


def _guards_done(hit: bool) -> bool:
    thread = threading.get_ident()
    for hits in Hits._under_way:
        hits.count += hit and hits.thread == thread
    return hit if Hits._before is None else Hits._before(hit)


def everything_eager() -> str | None:
    """What has every compiled function of the process run eager now, as it is written; None where nothing does."""
    stance = owner("stance_set").stance
    if stance == "force_eager":
        return f"torch.compiler.set_stance({stance!r})"
    return "torch._dynamo.config.disable" if owner("dynamo_off").disable else None


def under_a_mode() -> bool:
    """Whether a mode that looks at every operator, or a transform, is on, under which Dynamo compiles nothing."""
    transform = owner("transforms").peek_interpreter_stack()
    return transform is not None or owner("dispatch_modes")._len_torch_dispatch_stack() > 0


def by_choice() -> bool:
    """Whether calls run eager now for who makes them, and others may not: under a stance, or in an export."""
    return owner("stance_set").stance not in ("default", "fail_on_recompile") or torch.compiler.is_compiling()


def frames_outward() -> Iterator[FrameType]:
    """The frames of this thread, from the caller's outward."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def compiled_calls() -> list[object]:
    """The compiled functions that this thread is within a call of, however they run; of a method, its object."""
    called = (frame.f_locals.get("fn") for frame in frames_outward() if frame.f_code.co_name == COMPILED_FUNCTION)
    return [getattr(function, "__self__", function) for function in called]


def pass_over(function: Callable) -> None:
    """Keep Dynamo from the frames of a function, and of none that it calls."""
    owner("skip_code").skip_code(function.__code__)


def listen_for_skips(listener: Callable[[CodeType, str], None]) -> None:
    """Have the listener told of each frame that Dynamo leaves eager for good, and why (torch 2.13 on)."""
    if lookup("skip_reason") is None:
        return
    module = owner("skip_reason")
    tell = module.add_skip_reason

    def add_skip_reason(reason: str, frame: FrameType) -> None:
        listener(frame.f_code, reason)
        tell(reason, frame)

    module.add_skip_reason = add_skip_reason


def environment_reads() -> list[str]:
    """Where the code that a compile under way has traced reads `os.environ` and Dynamo guards not all that it asks
    for: `file:line in function` for each such function.

    A variable that is found in `os.environ` is guarded. One that is not there is not, nor is what `os.getenv` returns.
    """
    context = owner("tracing_context").try_get()
    traced = [] if context is None else list(context.traced_code)
    environments: list[Any] = [os.environ, getattr(os, "environb", os.environ)]
    encoders = {environment.encodekey.__code__ for environment in environments}
    reads = sum(code in encoders for code in traced)
    guarded = {name for name in _guarded_names(context) if "._data[b" in name} if reads else set()
    if reads <= len(guarded):
        return []
    # The code that reads is the caller of Python's own; which of several callers it was is not kept.
    standard = {os.__file__, *(code.co_filename for code in encoders)}
    own = [code for code in dict.fromkeys(traced) if code.co_filename not in standard and not _in(TORCH, code)]
    found = [place for code in own for place in _mentions(code)]
    return found or [_place(code, code.co_firstlineno) for code in own[:1]]


def _guarded_names(context: Any) -> Iterator[str]:
    for guard in context.guards_context.dynamo_guards:
        yield str(guard.name() if callable(guard.name) else guard.name)


def _mentions(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.argval in ("environ", "getenv"):
            line = instruction.positions.lineno if instruction.positions else code.co_firstlineno
            yield _place(code, line)


def _place(code: CodeType, line: int | None) -> str:
    return f"{code.co_filename}:{line} in {code.co_qualname}"


def hooks_of(module: nn.Module) -> tuple[int, ...]:
    """The handles of the hooks that a call of the module runs."""
    return tuple(handle for name in HOOKS for handle in getattr(module, name, ()))


def hooks_are_guarded() -> bool:
    """Whether a hook that is added to a module makes Dynamo compile again; by default none does."""
    return not owner("hook_guards").skip_nnmodule_hook_guards


def _in(folders: str | tuple[str, ...], code: CodeType) -> bool:
    return code.co_filename.startswith(folders)


def is_machinery(code: CodeType) -> bool:
    """Whether a frame is torch's, the lab's or a comprehension's, and none that somebody would say calls a model."""
    return code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>") or _in(OURS, code)
