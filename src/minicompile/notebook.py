"""`capture`, `what_if` and `render_explorer` as people call them: what they cannot be given is refused in a sentence.

In a notebook a capture and a what-if show themselves, everywhere else they are plain data.
"""

import tempfile
from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

from torch import nn

from minicompile import capturing, flipping
from minicompile.explain import explorer
from minicompile.explain.reading import refuse_no_capture
from minicompile.explain.summary import summary_html
from minicompile.explain.what_if import render_what_if
from minilab import LabError
from minilab.pages.frame import Framed


class ShownCapture(dict):
    """A capture that a notebook shows as a summary and, in a frame, its explorer; otherwise a dictionary."""

    def _repr_html_(self) -> str:
        made: Any = self
        told = str(summary_html(made))
        if not self["graphs"]:
            return told
        return told + _framed(explorer.render_explorer, made)


class ShownWhatIf(dict):
    """A what-if that a notebook shows as its page, which asks for a guess first; otherwise a dictionary."""

    def _repr_html_(self) -> str:
        return _framed(render_what_if, self)


def _framed(render: Callable, made: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        render(made, page)
        return Framed(page.read_text(encoding="utf-8"))._repr_html_()


@wraps(capturing.capture)
def capture(*args: Any, **kwargs: Any) -> ShownCapture:
    _refuse("capture", capturing.capture, args, kwargs)
    return ShownCapture(capturing.capture(*args, **kwargs))


@wraps(flipping.what_if)
def what_if(*args: Any, **kwargs: Any) -> ShownWhatIf:
    _refuse("what_if", flipping.what_if, args, kwargs)
    return ShownWhatIf(flipping.what_if(*args, **kwargs))


def _refuse(called: str, function: Callable, args: tuple, by_name: dict) -> None:
    given = signature(function).bind(*args, **by_name).arguments
    model, keywords, settings = (given.get(name) for name in ("model", "kwargs", "options"))
    if not callable(model) or (isinstance(model, type) and issubclass(model, nn.Module)):
        kind = f"the class {model.__name__}" if isinstance(model, type) else f"of type {type(model).__name__}"
        raise LabError(f"the model to capture is {kind}; give an nn.Module or a function.")
    for name, value in (("kwargs", keywords), ("options", settings)):
        if value is not None and not isinstance(value, dict):
            raise LabError(f"{name} of {called} is of type {type(value).__name__}; give a dictionary, or nothing.")


@wraps(explorer.render_explorer)
def render_explorer(capture: Any, path: str | Path, **settings: Any) -> Path:
    for each in capture if isinstance(capture, list | tuple) else [capture]:
        refuse_no_capture(each)
    try:
        return explorer.render_explorer(capture, path, **settings)
    except OSError as error:
        raise LabError(f"the page cannot be written to {path}: {error.strerror}; give another path.") from error
