"""Mark what a student handed in: each exercise as a learner's own, and nothing of it where it can do harm.

Each exercise runs in processes of its own, forked from a server that has imported what they need, which end with the
exercise. They have a limit of time, of memory and of processes, write in a folder of their own alone, and cannot read
what other students handed in where the kernel has Landlock. A verdict follows from what is right and from what was
counted, so it is the same each time; times decide nothing here.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from minikernel.exercise.exercise import Setting, mark, workshop
from minikernel.exercise.exercises import Exercise
from minikernel.exercise.gradebook import read_only, row_of
from minikernel.exercise.submissions import Submission, handed_in, students
from minikernel.judge.client import Workshop
from minilab.files import write_json
from minilab.records.digests import digest_of_code

KNOB = "grade.time_limit_seconds"


class Limits(NamedTuple):
    """What one exercise of one student is given.

    Attributes:
        seconds: until its processes are ended.
        memory_bytes: that each may hold.
        timed: whether it is timed too.
        device: torch device for what runs on a GPU where there is one.
        bench: what is timed there.
        workers: exercises that are marked at the same time.
    """

    seconds: float
    memory_bytes: int
    timed: bool = False
    device: str = "cpu"
    bench: dict = {}  # noqa: RUF012  # of a named tuple, which nobody changes
    workers: int = 1


def mark_submission(submission: Submission, place: Workshop, limits: Limits) -> dict[str, Any]:
    """Mark all that a student handed in.

    Args:
        submission: the student's.
        place: where its processes are forked; what they may not read is hidden there.
        limits: of each exercise.

    Returns:
        `student`, `slug`, and `exercises`: name -> `verdict`, `hints`, `reason`, `steps`, `predicted`, `held`,
        `traffic`, `speed`, `digest`, as schemas/grades.schema.yaml describes them.
    """
    known, seconds = read_only(submission), dict.fromkeys(("proof", "bench"), limits.seconds)
    setting = Setting(place, limits.device, seconds, KNOB, limits.bench, limits.timed)
    handed = [(exercise, file.text or b"") for exercise, file in handed_in(submission)]
    with (
        tempfile.TemporaryDirectory(prefix="handed-in-") as copies,
        ThreadPoolExecutor(1 if limits.timed else limits.workers) as pool,
    ):
        rows = pool.map(lambda one: known.get(one[0].name) or _row(one[0], one[1], Path(copies), setting), handed)
        exercises = {exercise.name: row for (exercise, _), row in zip(handed, rows, strict=True)}
    return {"student": submission.student, "slug": submission.slug, "exercises": exercises}


def _row(exercise: Exercise, text: bytes, copies: Path, setting: Setting) -> dict[str, Any]:
    copy = copies / exercise.file
    copy.write_bytes(text)
    return {**row_of(mark(exercise, str(copy), setting)), "digest": digest_of_code(copy)}


def main(arguments: Sequence[str]) -> None:
    """Mark one student of a class: `python -m minikernel.exercise.grade CLASS SLUG LIMITS HIDDEN ROW`.

    Args:
        arguments: the class's folder, the student's slug, `Limits` as JSON, folders that are hidden besides the class
            as a JSON list, and where the row is written.
    """
    folder, slug, given, hidden, row = arguments
    limits = Limits(**json.loads(given))
    with workshop((Path(folder), *map(Path, json.loads(hidden))), limits.memory_bytes) as place:
        write_json(row, mark_submission(students(folder)[slug], place, limits))


if __name__ == "__main__":
    main(sys.argv[1:])
