"""A student marked, or a class timed, in a process of its own: whatever becomes of it, there is a row.

Nothing heavy is imported before that process has begun its own: scripts give it compile caches, and the server of the
students' processes imports at the same time.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minikernel.exercise.grading.submissions import Submission, students
from minikernel.exercise.workshop import workshop
from minilab import LabError
from minilab.files import parse_json, write_json

Row = dict[str, Any]  # as minikernel.exercise.grading.marking gives it
log = logging.getLogger("minilab")


def mark_apart(submission: Submission, limits: Mapping[str, Any], hidden: Path) -> Row:
    """Mark what a student handed in, in a process that may end in any way.

    Args:
        submission: the student's.
        limits: of `minikernel.exercise.grading.marking.Limits`, by their names.
        hidden: a folder that the student's code may not read, besides the class's.

    Raises:
        LabError: the process ended without a row; the sentence has its exit status.
    """
    asked = {"folder": str(submission.folder.parent), "mark": submission.slug}
    with _begun({**asked, "limits": dict(limits), "hidden": str(hidden.resolve())}) as (process, told):
        for row in told:
            process.wait()
            return row
        raise LabError(f"the marking itself ended with exit status {process.wait()}; its log says where")


def time_apart(folder: str, rows: Sequence[Row], limits: Mapping[str, Any], hidden: Path) -> Iterator[Row]:
    """Time what students have got right, one after the other, in one process; each row as soon as it has its times.

    Whoever ends that process has no times, and another goes on with the others.

    Args:
        folder: the class's.
        rows: of its students, as `mark_apart` gives them.
        limits, hidden: as there.
    """
    asked = {"folder": folder, "limits": dict(limits), "hidden": str(hidden.resolve())}
    waiting = list(rows)
    while waiting:
        with _begun({**asked, "time": waiting}) as (process, told):
            for row in told:
                waiting = waiting[1:]
                yield row
            status = process.wait()
        if waiting:
            log.warning("%s has no times: the timing ended with exit status %s", waiting[0]["slug"], status)
            yield waiting[0]
            waiting = waiting[1:]


@contextmanager
def _begun(asked: Mapping[str, Any]) -> Iterator[tuple[subprocess.Popen, Iterator[Row]]]:
    """A process that does what is asked, and the rows that it tells; what it printed is logged at its end."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="asked-") as folder, open(Path(folder, "printed"), "w+b") as printed:
        write_json(Path(folder, "asked.json"), dict(asked))
        command = [sys.executable, "-m", __name__, f"{folder}/asked.json", str(writing)]
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, pass_fds=(writing,))
        os.close(writing)
        try:
            with os.fdopen(reading, "rb") as told:
                yield process, map(parse_json, told)
        finally:
            process.kill()
            process.wait()
            printed.seek(0)
            if said := printed.read().decode(errors="replace").strip():
                log.info("%s", said)


def main(asked: str, descriptor: int) -> None:
    """Mark a student, or time several: `python -m minikernel.exercise.grading.grade FILE DESCRIPTOR`.

    Args:
        asked: a JSON file with the class's `folder`, `limits`, a folder that is `hidden` besides the class, and
            either `mark`, a student's slug, or `time`, rows of students.
        descriptor: where rows are told, one a line.
    """
    what = json.loads(Path(asked).read_text(encoding="utf-8"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    class_of = students(what["folder"])
    marked = class_of[what["mark"]] if "mark" in what else None  # before anything heavy is imported
    with (
        os.fdopen(descriptor, "w") as told,
        workshop((Path(what["folder"]), Path(what["hidden"])), what["limits"]["memory_bytes"]) as place,
    ):
        from minikernel.exercise.grading.marking import Limits, mark_submission, time_submission

        limits = Limits(**what["limits"])
        made = (
            [mark_submission(marked, place, limits)]
            if marked
            else (time_submission(class_of[row["slug"]], row, place, limits) for row in what["time"])
        )
        for row in made:
            print(json.dumps(row), file=told, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
