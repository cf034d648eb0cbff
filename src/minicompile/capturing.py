"""`capture`: what torch.compile makes of a model, watched and concluded in one go."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.watching.model import watch_model


@wraps(watch_model)
def capture(model: Callable, *args: Any, **kwargs: Any) -> Capture:
    return as_capture(watch_model(model, *args, **kwargs))
