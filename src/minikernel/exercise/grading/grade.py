"""A student marked, or timed, in a process of its own: whatever becomes of it, there is a row.

Nothing heavy is imported before that process has begun its own: scripts give it compile caches, and the server of the
students' processes imports at the same time.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minikernel.exercise.grading.submissions import Submission, students
from minikernel.exercise.workshop import workshop
from minilab import LabError
from minilab.files import read_object, write_json

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
    done = subprocess.run(
        [sys.executable, "-m", __name__, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if said := done.stdout.decode(errors="replace").strip():
        log.info("%s", said)
    if not made.exists():
        raise LabError(f"the marking itself ended with exit status {done.returncode}; its log says where")
    return read_object(made)


def main(arguments: Sequence[str]) -> None:
    """One student of a class: `python -m minikernel.exercise.grading.grade WORK CLASS SLUG LIMITS HIDDEN MADE ROW`.

    Args:
        arguments: `mark` or `time`, the class's folder, the student's slug, `Limits` as JSON, a folder that is hidden
            besides the class, where the row is written, and the row that is timed.
    """
    work, folder, slug, given, hidden, made, row = arguments
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    values = json.loads(given)
    with workshop((Path(folder), Path(hidden)), values["memory_bytes"]) as place:
        from minikernel.exercise.grading.marking import Limits, mark_submission, time_submission

        limits, submission = Limits(**values), students(folder)[slug]
        if work == "mark":
            write_json(made, mark_submission(submission, place, limits))
        else:
            write_json(made, time_submission(submission, read_object(row), place, limits))


if __name__ == "__main__":
    main(sys.argv[1:])
