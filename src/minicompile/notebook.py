"""`capture` and `render_explorer` as people call them: what they cannot be given is refused in a sentence.

In a notebook a capture shows itself, everywhere else it is plain data.
"""

import tempfile
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

from markupsafe import escape
from torch import nn

from minicompile import capturing
from minicompile.explain import explorer
from minicompile.explain.reading import refuse_no_capture
from minicompile.explain.summary import summary_html
from minilab import LabError

HEIGHT = 800  # pixels of the frame


class ShownCapture(dict):
    """A capture that a notebook shows as a summary and, in a frame, its explorer; otherwise a dictionary."""

    def _repr_html_(self) -> str:
        made: Any = self
        told = str(summary_html(made))
        if not self["graphs"]:
            return told
        with tempfile.TemporaryDirectory() as folder:
            page = explorer.render_explorer(made, Path(folder, "explorer.html")).read_text()
        return f'{told}<iframe srcdoc="{escape(page)}" style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'


@wraps(capturing.capture)
def capture(*args: Any, **kwargs: Any) -> ShownCapture:
    given = signature(capturing.capture).bind(*args, **kwargs).arguments
    model, keywords, settings = (given.get(name) for name in ("model", "kwargs", "options"))
    if not callable(model) or (isinstance(model, type) and issubclass(model, nn.Module)):
        kind = f"the class {model.__name__}" if isinstance(model, type) else f"of type {type(model).__name__}"
        raise LabError(f"the model to capture is {kind}; give an nn.Module or a function.")
    for name, value in (("kwargs", keywords), ("options", settings)):
        if value is not None and not isinstance(value, dict):
            raise LabError(f"{name} of capture is of type {type(value).__name__}; give a dictionary, or nothing.")
    return ShownCapture(capturing.capture(*args, **kwargs))


@wraps(explorer.render_explorer)
def render_explorer(capture: Any, path: str | Path, **settings: Any) -> Path:
    for each in capture if isinstance(capture, list | tuple) else [capture]:
        refuse_no_capture(each)
    try:
        return explorer.render_explorer(capture, path, **settings)
    except OSError as error:
        raise LabError(f"the page cannot be written to {path}: {error.strerror}; give another path.") from error
