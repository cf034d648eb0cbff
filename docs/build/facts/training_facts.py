"""The figures of the training in one launch that its concept page quotes: those of a record."""

from pathlib import Path

from minikernel.report.model.training import training_view
from minilab.files import read_json


def training_facts(record: Path) -> dict | None:
    """What the report says of a step and of the whole training; None without a record.

    Args:
        record: folder of a GPU's record of stage 26; it may hold no `training.json` yet.
    """
    timed = record / "training.json"
    return training_view(read_json(timed)) if timed.exists() else None
