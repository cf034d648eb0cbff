"""Mark what a student handed in: each exercise as a learner's own, and nothing of it where it can do harm.

Each exercise runs in processes of its own, forked from a server that has imported what they need, which end with the
exercise. They have a limit of time, of memory and of processes, write in a folder of their own alone, and cannot read
what other students handed in where the kernel has Landlock. A verdict follows from what is right and from what was
counted, so it is the same each time; times decide nothing here. They are measured apart, because many students can be
marked at the same time, and only one can be timed.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minikernel.exercise.exercise import Setting, add_times, mark, workshop
from minikernel.exercise.exercises import Exercise
from minikernel.exercise.grading.gradebook import read_only, row_of, row_of_student
from minikernel.exercise.grading.submissions import Submission, handed_in, students
from minikernel.exercise.marks import has_a_time
from minikernel.judge.client import Workshop
from minilab.files import read_object, write_json
from minilab.records.digests import digest_of_code

KNOB = "grade.time_limit_seconds"


class Limits(NamedTuple):
    """What one exercise of one student is given.

    Attributes:
        seconds: until its processes are ended.
        memory_bytes: that each may hold.
        device: torch device for what runs on a GPU where there is one.
        bench: what is timed there.
    """

    seconds: float
    memory_bytes: int
    device: str = "cpu"
    bench: dict = {}  # noqa: RUF012  # of a named tuple, which nobody changes

    def setting(self, place: Workshop) -> Setting:
        """Where and within what limits an exercise is marked."""
        return Setting(place, self.device, dict.fromkeys(("proof", "bench"), self.seconds), KNOB, self.bench)


def mark_submission(submission: Submission, place: Workshop, limits: Limits) -> dict[str, Any]:
    """Mark all that a student handed in.

    Args:
        submission: the student's.
        place: where its processes are forked; what they may not read is hidden there.
        limits: of each exercise.

    Returns:
        `student`, `slug`; `exercises`: name -> `verdict`, `hints`, `reason`, `steps`, `predicted`, `held`, `traffic`,
        `speed` (None), `digest`, as schemas/grades.schema.yaml describes them; `marks`: of the exercises whose time
        says something, what `time_submission` needs.
    """
    known, cells, timeable = read_only(submission), {}, {}
    for exercise, copy in _copies(submission):
        if exercise.name in known:
            cells[exercise.name] = known[exercise.name]
            continue
        marks = mark(exercise, str(copy), limits.setting(place))
        cells[exercise.name] = {**row_of(marks), "digest": digest_of_code(copy)}
        if has_a_time(marks):
            timeable[exercise.name] = marks
    return row_of_student(submission, cells, timeable)


def time_submission(submission: Submission, row: dict[str, Any], place: Workshop, limits: Limits) -> dict[str, Any]:
    """Time what a student has got right, on a machine that does nothing else.

    Args:
        submission: the student's.
        row: as `mark_submission` gives it.
        place, limits: as there.

    Returns:
        The row, with the times that could be measured; no verdict changes.
    """
    cells = dict(row["exercises"])
    for exercise, copy in _copies(submission):
        cell, marks = cells[exercise.name], row["marks"].get(exercise.name)
        if marks and digest_of_code(copy) == cell["digest"]:
            add_times(marks, str(copy), limits.setting(place))
            timed = row_of(marks)
            cells[exercise.name] = {**cell, "speed": timed["speed"], "held": timed["held"]}
    return {**row, "exercises": cells, "marks": {}}


def _copies(submission: Submission) -> Iterator[tuple[Exercise, Path]]:
    """Each exercise with a copy of what the student handed in, in a folder that holds nothing else of the class."""
    with tempfile.TemporaryDirectory(prefix="handed-in-") as folder:
        for exercise, file in handed_in(submission):
            copy = Path(folder, exercise.file)
            copy.write_bytes(file.text or b"")
            yield exercise, copy


def main(arguments: Sequence[str]) -> None:
    """One student of a class: `python -m minikernel.exercise.grading.marking WORK CLASS SLUG LIMITS HIDDEN MADE ROW`.

    Args:
        arguments: `mark` or `time`, the class's folder, the student's slug, `Limits` as JSON, a folder that is hidden
            besides the class, where the row is written, and the row that is timed.
    """
    work, folder, slug, given, hidden, made, row = arguments
    limits, submission = Limits(**json.loads(given)), students(folder)[slug]
    with workshop((Path(folder), Path(hidden)), limits.memory_bytes) as place:
        if work == "mark":
            write_json(made, mark_submission(submission, place, limits))
        else:
            write_json(made, time_submission(submission, read_object(row), place, limits))


if __name__ == "__main__":
    main(sys.argv[1:])
