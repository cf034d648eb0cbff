"""Mark what a student handed in: each exercise as a learner's own, and nothing of it where it can do harm.

Each exercise runs in processes of its own, forked from a server that has imported what they need, which end with the
exercise. They have a limit of time, of memory and of processes, write in a folder of their own alone, and cannot read
what other students handed in where the kernel has Landlock. A verdict follows from what is right and from what was
counted, so it is the same each time; times decide nothing here. They are measured apart, because many students can be
marked at the same time, and only one can be timed.
"""

import logging
import math
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from minikernel.exercise.exercise import Setting, add_times, mark
from minikernel.exercise.exercises import Exercise
from minikernel.exercise.grading.gradebook import read_only, row_of, row_of_student
from minikernel.exercise.grading.submissions import Submission, handed_in
from minikernel.exercise.marks import Marks, has_a_time
from minikernel.judge.client import Workshop
from minikernel.reasons import in_words
from minilab.records.sources.digests import digest_of_code

KNOB = "grade.time_limit_seconds"
LARGEST_BYTES = 1e8  # of a shape that is timed: with larger ones the judge takes longer than a student is given
log = logging.getLogger("minilab")


class Limits(NamedTuple):
    """What one exercise of one student is given.

    Attributes:
        seconds: until its processes are ended.
        memory_bytes: that each may hold.
        device: torch device for what runs on a GPU where there is one.
        bench: what is timed there, of its shapes the largest that leaves the judge time.
        workers: exercises that are marked at the same time; they are timed one after the other.
    """

    seconds: float
    memory_bytes: int
    device: str = "cpu"
    bench: dict = {}  # noqa: RUF012  # of a named tuple, which nobody changes
    workers: int = 1

    def setting(self, place: Workshop) -> Setting:
        """Where and within what limits an exercise is marked."""
        seconds = dict.fromkeys(("proof", "bench"), self.seconds)
        return Setting(place, self.device, seconds, KNOB, self.bench and {**self.bench, "shapes": [self._shape()]})

    def _shape(self) -> list[int]:
        itemsize = getattr(torch, self.bench["dtype"]).itemsize
        small = [one for one in self.bench["shapes"] if math.prod(one) * itemsize <= LARGEST_BYTES]
        return max(small or [min(self.bench["shapes"], key=math.prod)], key=math.prod)


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
    known, timeable = read_only(submission), {}

    def cell_of(one: tuple[Exercise, Path]) -> dict[str, Any]:
        exercise, copy = one
        if exercise.name in known:
            return known[exercise.name]
        marks = mark(exercise, str(copy), limits.setting(place))
        if has_a_time(marks):
            timeable[exercise.name] = marks
        return {**row_of(marks), "digest": digest_of_code(copy)}

    with _copies(submission) as copies, ThreadPoolExecutor(limits.workers) as pool:
        cells = {exercise.name: cell for (exercise, _), cell in zip(copies, pool.map(cell_of, copies), strict=True)}
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
    with _copies(submission) as copies:
        for exercise, copy in copies:
            cell, marks = cells[exercise.name], row["marks"].get(exercise.name)
            if marks and digest_of_code(copy) == cell["digest"]:
                add_times(marks, str(copy), limits.setting(place))
                timed = row_of(marks)
                cells[exercise.name] = {**cell, "speed": timed["speed"], "held": timed["held"]}
                log.info("%s: %s", submission.slug, _time_in_words(exercise.name, marks, timed["speed"]))
    return {**row, "exercises": cells, "marks": {}}


def _time_in_words(name: str, marks: Marks, speed: dict[str, float] | None) -> str:
    if speed:
        return f"{name} takes {speed['ratio']:.3f} times as long as what it is compared with"
    return f"{name} was not timed: {in_words(marks['untimed'])}" if marks["untimed"] else f"{name} was not timed"


@contextmanager
def _copies(submission: Submission) -> Iterator[list[tuple[Exercise, Path]]]:
    """Each exercise with a copy of what the student handed in, in a folder that holds nothing else of the class."""
    with tempfile.TemporaryDirectory(prefix="handed-in-") as folder:
        copies = [(exercise, Path(folder, exercise.file)) for exercise, _ in handed_in(submission)]
        for (_, copy), (_, file) in zip(copies, handed_in(submission), strict=True):
            copy.write_bytes(file.text or b"")
        yield copies
