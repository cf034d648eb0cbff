"""`capture` as people call it: in a notebook its result shows itself, everywhere else it is plain data."""

import tempfile
from functools import wraps
from pathlib import Path
from typing import Any

from markupsafe import escape

from minicompile.explain.explorer import render_explorer
from minicompile.explain.summary import summary_html
from minicompile.lowering import capture as lowering

HEIGHT = 800  # pixels of the frame


class ShownCapture(dict):
    """A capture that a notebook shows as a summary and, in a frame, its explorer; otherwise a dictionary."""

    def _repr_html_(self) -> str:
        made: Any = self
        told = str(summary_html(made))
        if not self["graphs"]:
            return told
        with tempfile.TemporaryDirectory() as folder:
            page = render_explorer(made, Path(folder, "explorer.html")).read_text()
        return f'{told}<iframe srcdoc="{escape(page)}" style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'


@wraps(lowering.capture)
def capture(*args: Any, **kwargs: Any) -> ShownCapture:
    return ShownCapture(lowering.capture(*args, **kwargs))
