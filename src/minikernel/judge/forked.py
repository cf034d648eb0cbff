"""The process of a kernel as a fork of one that has imported all that takes long (`minilab.sandbox.forks`)."""

import inspect
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from minikernel.judge import worker
from minilab.sandbox import landlock
from minilab.user_files import open_notes

with torch.compiler.set_stance("force_eager"):  # as redzones do: it imports Dynamo, which takes longer than a proof
    pass


def patch_once(patch: Callable[..., None], is_builtin: Callable[[Any], bool]) -> Callable[..., None]:
    """Triton's interpreter patches its language at every call of a kernel, and again at each call of a function within
    it, which finds nothing to patch and takes longer than the function. This leaves out the second.

    Args:
        patch: of one module or class of the language, its first argument.
        is_builtin: tells what it patches.
    """
    first: dict[int, str | None] = {}  # one of those that it patches, by the owner

    def patched(owner: Any, *more: Any) -> None:
        if id(owner) not in first:
            first[id(owner)] = next((name for name, one in inspect.getmembers(owner) if is_builtin(one)), None)
        name = first[id(owner)]
        if name and is_builtin(getattr(owner, name)):
            patch(owner, *more)

    return patched


def index_by_item(patch: Callable[..., None]) -> Callable[..., None]:
    """The bounds of a loop in Triton's interpreter, `range(0, cols, BLOCK)`, are arrays of one element, of which Triton
    3.6 makes an int in a way that NumPy refuses since 2.4 (`findings/triton_interpreter_loop.sh`).

    Args:
        patch: the interpreter's, of a class of tensors; it takes the class and what notes each change.
    """

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    return patched


if find_spec("triton") and os.environ.get("TRITON_INTERPRET") == "1":
    import triton
    from triton.runtime import interpreter

    # Names of Triton's own that may move in another version: these patches only make it faster, or let NumPy 2.5 in.
    interpreter._patch_builtin = patch_once(interpreter._patch_builtin, interpreter.tl.core.is_builtin)
    interpreter._patch_lang_tensor = index_by_item(interpreter._patch_lang_tensor)
    # As on a GPU, integers wrap; to look at each sum of them takes as long as all the rest of a softmax.
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)

    @triton.jit
    def _first(x):
        interpreter.tl.store(x, 0.0)

    _first[(1,)](torch.ones(1))  # the first launch imports what all others need


def main(descriptor: int, deadline: str, folder: str, *hidden: str) -> None:
    """Serve the judge as `worker.main` does, writing in a folder alone and reading nothing of hidden ones."""
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    open_notes()
    landlock.confine(Path(folder), [Path(one) for one in hidden])
    worker.main(descriptor, float(deadline))
