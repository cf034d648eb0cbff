"""The model as `torch.export` sees it, in a file beside its capture."""

from pathlib import Path

import torch

from minilab import LabError
from minilab.files import replacing


def write_exported(model: torch.nn.Module, inputs: tuple, path: str | Path) -> None:
    """Write the model as `torch.export` sees it.

    Raises:
        LabError: the model cannot be exported; the sentence carries torch's reason.
    """
    try:
        program = torch.export.export(model, inputs)
    except Exception as error:  # of many kinds
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise LabError(
            f"torch.export cannot export {type(model).__name__} ({reason[0]}); rewrite what it names so that it traces "
            f"without graph breaks."
        ) from error
    with replacing(path) as temporary:
        torch.export.save(program, temporary)
