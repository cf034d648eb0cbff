"""The model as `torch.export` sees it, in a file beside its capture."""

from collections.abc import Callable
from pathlib import Path

import torch

from minilab.files import replacing


def write_exported(model: Callable, args: tuple, kwargs: dict, path: str | Path) -> str | None:
    """Write the model as `torch.export` sees it, in place of an older file.

    Returns:
        None, or torch's reason where it cannot export the model, as with graph breaks; then no file is left.
    """
    Path(path).unlink(missing_ok=True)
    if not isinstance(model, torch.nn.Module):
        return "torch.export takes modules, and this is a function"
    try:
        program = torch.export.export(model, args, kwargs or None)
    except Exception as error:  # of many kinds
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    with replacing(path) as temporary:
        torch.export.save(program, temporary)
    return None
