"""The place in which the lab lies: what a run needs of it, checked before anything runs."""

import os
from pathlib import Path

from minilab.errors import LabError

FOLDERS = ("logs", "results", ".snakemake")


def check_surroundings(root: Path) -> None:
    """Refuse a place in which Snakemake would fail later, with words of its own.

    Raises:
        LabError: the path of the lab has braces in it, which Snakemake takes for wildcards; or a file lies where the
            lab's folders go.
    """
    if set("{}") & set(str(root)):
        raise LabError(
            f"the path of the lab, {root}, has braces in it, which Snakemake takes for wildcards; rename that folder."
        )
    for name in FOLDERS:
        if (root / name).exists() and not (root / name).is_dir():
            raise LabError(
                f"{name} is a file where the lab needs a folder; move it away and run the same command again."
            )


def speak_utf8() -> None:
    """Have the Python of every job read and write UTF-8, as the lab's files are, whatever the locale says."""
    os.environ["PYTHONUTF8"] = "1"
