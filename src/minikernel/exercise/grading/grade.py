"""A student marked, or timed, in a process of its own: whatever becomes of it, there is a row.

Nothing heavy is imported here, so that a script can give the process compile caches of its own.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikernel.exercise.grading.submissions import Submission
from minilab import LabError
from minilab.files import read_object

MARKING = "minikernel.exercise.grading.marking"
log = logging.getLogger("minilab")


def in_a_process(
    work: str, submission: Submission, limits: Mapping[str, Any], hidden: Path, folder: Path, row: str = ""
) -> dict[str, Any]:
    """Mark or time what a student handed in, in a process that may end in any way.

    Args:
        work: `mark` or `time`.
        submission: the student's.
        limits: of `minikernel.exercise.grading.marking.Limits`, by their names.
        hidden: a folder that the student's code may not read, besides the class's.
        folder: where the process leaves what it found.
        row: the file with the student's marks, to be timed.

    Returns:
        The student's row, as `minikernel.exercise.grading.marking` gives it.

    Raises:
        LabError: the process ended without one; the sentence has its exit status.
    """
    made = folder / "row.json"
    whole = submission.folder.parent
    arguments = [work, str(whole), submission.slug, json.dumps(dict(limits)), str(hidden.resolve()), str(made), row]
    done = subprocess.run([sys.executable, "-m", MARKING, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if said := done.stdout.decode(errors="replace").strip():
        log.info("%s", said)
    if not made.exists():
        raise LabError(f"the marking itself ended with exit status {done.returncode}; its log says where")
    return read_object(made)
