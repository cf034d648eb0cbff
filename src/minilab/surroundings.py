"""The place in which the lab lies: what a run needs of it, checked before anything runs."""

import os
import time
from contextlib import suppress
from pathlib import Path

from minilab.errors import LabError

FOLDERS = ("logs", "results", ".snakemake")
DATED = ("src", "scripts", "results")  # folders of inputs and results
AHEAD_SECONDS = 2.0  # that a file server's clock may be ahead of this machine's


def check_surroundings(root: Path) -> None:
    """Refuse a place in which Snakemake would fail later, with words of its own.

    Raises:
        LabError: the path of the lab has braces in it, which Snakemake takes for wildcards; or a file lies where the
            lab's folders go; or a source or a result was written in the future.
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
    _check_clock(root)


def check_folder(root: Path, lab: str) -> None:
    """Refuse to run in another folder than the lab's own: sources, schemas and records are found from there.

    Args:
        root: the folder that Snakemake works in.
        lab: the folder of the lab's Snakefile, or the address that a `module:` has it from.

    Raises:
        LabError: they are not the same.
    """
    if not (Path(lab).is_dir() and root.samefile(lab)):
        raise LabError(
            f"the lab runs in its own folder, {lab}, and this is {root}; `cd` there and leave --directory and "
            "`module:` away, or clone the lab to where you work (docs/cluster.md: a clone for each student)."
        )


def _check_clock(root: Path) -> None:
    """Refuse files from the future: Snakemake would run a job on one, and throw away what it made as older."""
    now = time.time()
    files = (Path(folder, name) for top in DATED for folder, _, names in os.walk(root / top) for name in names)
    dated = []
    for file in files:
        with suppress(FileNotFoundError):  # a temporary file of a job that runs meanwhile
            dated.append((file.lstat().st_mtime, file))
    newest, file = max(dated, default=(now, root))
    if newest > now + AHEAD_SECONDS:
        name = file.relative_to(root)
        raise LabError(
            f"{name} was written {newest - now:.0f} seconds from now by this machine's clock, so that whatever is "
            f"built from it would count as too old; set the clock, or `touch {name}`."
        )


def speak_utf8() -> None:
    """Have the Python of every job read and write UTF-8, as the lab's files are, whatever the locale says."""
    os.environ["PYTHONUTF8"] = "1"
