"""The table of a class: a row for each student, what is alike in it, and the same as a spreadsheet takes it.

All of it is plain data, as schemas/grades.schema.yaml describes it.
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from minikernel.exercise.answers import answers_of
from minikernel.exercise.diagnosis import next_steps
from minikernel.exercise.exercises import graded
from minikernel.exercise.grading.submissions import Submission, handed_in
from minikernel.exercise.marks import Marks, noise, predictions, steps, verdict

FORMULA = tuple("=+-@\t\r")  # a spreadsheet would work out what begins so
NOTHING: dict[str, Any] = {
    "verdict": "missing",
    "hints": [],
    "reason": None,
    "steps": {},
    "predicted": {},
    "held": None,
    "traffic": None,
    "speed": None,
    "digest": None,
}


def read_only(submission: Submission) -> dict[str, dict[str, Any]]:
    """What is known of a student's exercises by reading alone: those that were not handed in, or not begun."""
    rows = {}
    for exercise, file in handed_in(submission):
        if file.text is None:
            rows[exercise.name] = {**NOTHING, "verdict": file.problem}
        elif answers_of(file.text).unfilled:
            rows[exercise.name] = {**NOTHING, "verdict": "unfilled"}
    return rows


def row_of_student(
    submission: Submission, cells: dict[str, dict[str, Any]], timeable: dict[str, Marks] | None = None
) -> dict[str, Any]:
    """A student's row: a cell for each exercise, and the marks of those that can be timed."""
    return {"student": submission.student, "slug": submission.slug, "exercises": cells, "marks": timeable or {}}


def not_marked(submission: Submission, said: str) -> dict[str, Any]:
    """What stands in the place of a student's marks where the marking itself came to an end."""
    row = {**NOTHING, "verdict": "unmarked", "reason": {"code": "refused", "text": said}}
    return row_of_student(submission, dict.fromkeys(graded(), row))


def row_of(marks: Marks) -> dict[str, Any]:
    """What a class's table holds of one exercise's marks."""
    hints = [advice["name"] for advice in next_steps(marks) if advice["code"] == "hint"]
    wrong = next((row["reason"] for row in marks["cases"] if row["reason"]), None)
    row = marks["timed"][-1] if marks["timed"] else None
    told = predictions(marks)
    return {
        **NOTHING,
        "verdict": verdict(marks, with_speed=False),
        "hints": hints,
        "reason": marks["ended"] or wrong,
        "steps": {step.name: step.done for step in steps(marks) if step.name != "speed"},
        "predicted": marks["predicted"],
        "held": sum(one.holds for one in told if one.holds is not None) if any(one.found for one in told) else None,
        "traffic": {name: marks["traffic"][0][name] for name in ("reads", "writes")} if marks["traffic"] else None,
        "speed": row and {"ratio": row["ratio_to_reference"], "noise": noise(row)},
    }


def gradebook(name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The table of a class.

    Args:
        name: the class's.
        rows: of its students, as `minikernel.exercise.grading.marking` gives them.

    Returns:
        `class`, `exercises`: their names; `students`: the rows, each with `done`, how many are done, and in each
        exercise `alike`, the students whose code means the same; `stumbles`: for each exercise the hints that students
        got first, with how many did.
    """
    names = graded()
    owners: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for exercise in names:
            if found := row["exercises"][exercise]["digest"]:
                owners.setdefault((exercise, found), []).append(row["student"])
    students = [
        {
            "student": row["student"],
            "slug": row["slug"],
            "done": sum(row["exercises"][exercise]["verdict"] == "done" for exercise in names),
            "exercises": {
                exercise: {
                    **cell,
                    "alike": [one for one in owners.get((exercise, cell["digest"]), []) if one != row["student"]],
                }
                for exercise, cell in row["exercises"].items()
            },
        }
        for row in rows
    ]
    stumbles = {exercise: _first_hints([row["exercises"][exercise] for row in rows]) for exercise in names}
    return {"class": name, "exercises": names, "students": students, "stumbles": stumbles}


def _first_hints(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    counted = Counter(cell["hints"][0] for cell in cells if cell["hints"])
    return [{"hint": hint, "students": count} for hint, count in counted.most_common()]


def as_csv(book: dict[str, Any]) -> str:
    """The table for a spreadsheet: student, a column an exercise with its verdict, and how many are done."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["student", *book["exercises"], "done"])
    for row in book["students"]:
        name = row["student"]
        verdicts = [row["exercises"][exercise]["verdict"] for exercise in book["exercises"]]
        table.writerow([f"'{name}" if name.startswith(FORMULA) else name, *verdicts, row["done"]])
    return text.getvalue()
