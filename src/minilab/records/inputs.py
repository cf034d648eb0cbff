"""What comes into a job from files: each input is looked at by its kind before the script opens it.

Whatever reads a file afterwards need not expect one that claims more than it holds, or an artefact that is no object.
"""

from collections.abc import Iterable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from minilab.records.artefact import artefact_at
from minilab.records.store import read_unedited

# By ending: the function that looks at such a file and refuses it.
LOOKS = {
    ".npz": "minimodel.opening:look_at_checkpoint",
    ".safetensors": "minimodel.opening:look_at_port",
}


def look_at_inputs(inputs: Any) -> None:
    """Look at every file among a job's inputs, Snakemake's or those of a command line.

    What it is made from (`sources`) is left alone: weights beside a user's file are no checkpoint of the lab's.

    Raises:
        LabError: the first that cannot be used.
    """
    sources = set(_paths([getattr(inputs, "sources", ())]))
    for path in (path for path in _paths(inputs) if path not in sources):
        if path.suffix in LOOKS:
            resolve_name(LOOKS[path.suffix])(path)
        elif path.suffix == ".json" and artefact_at(path):
            read_unedited(path)


def _paths(inputs: Any) -> Iterable[Path]:
    values = inputs if isinstance(inputs, list | tuple) else vars(inputs).values()
    for value in values:
        if isinstance(value, list | tuple):
            yield from _paths(value)
        elif isinstance(value, str | Path):
            yield Path(value)
