"""A class of two with marks, for tests of its page."""

from minikernel.exercise.exercises import graded
from minikernel.exercise.grading.gradebook import NOTHING, gradebook

WRONG = {
    "verdict": "wrong",
    "hints": ["maximum", "not_a_number"],
    "reason": {
        "code": "raised",
        "text": "ValueError: <script>alert(1)</script>",
        "at": {"code": "load", "kernel": "mine", "device": "cpu"},
    },
    "digest": "a" * 64,
    "predicted": dict.fromkeys(("reads", "writes", "megabytes", "share_of_copy"), 1.0),
    "held": 3,
    "traffic": {"reads": 2.0, "writes": 1.25},
    "speed": {"ratio": 0.5, "noise": 0.05},
}  # fmt: skip


def book(**cells: dict) -> dict:
    """The table of the class; `cells`: exercise -> what its marks have instead of nothing."""
    rows = [
        {
            "student": name,
            "slug": f"s{number}",
            "exercises": {one: {**NOTHING, **cells.get(one, {})} for one in graded()},
        }
        for number, name in enumerate(("Ana", "<b>Bo</b>"))
    ]
    return gradebook("1 < 2", rows)
