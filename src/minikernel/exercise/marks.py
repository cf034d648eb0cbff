"""Judge a learner's marks: which cases are wrong, whose work it is, and which of the four steps are done.

A judgement is plain data, codes with fields; `minikernel.report.exercise_report` words it.
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ONE_PASS = 1.05  # reads and writes of each element up to which a kernel takes one pass
HINTS_AT_ONCE = 3  # a learner mends one thing at a time
BORROWED = ("aten::_softmax", "aten::_log_softmax", "aten::logsumexp")  # torch's own, which is not the learner's
NEAR_COPY, FAR_FROM_COPY = 0.9, 0.5  # shares of a copy's bandwidth between which different advice helps
INTERPRETER = "triton-interpreter"

Marks = dict[str, Any]  # as `minikernel.exercise.exercise.mark` returns them
Coded = dict[str, Any]  # {"code", and the fields of that code's sentence}


class Step(NamedTuple):
    """One step of the exercise; `done` is None where it could not be judged, `why` says what decided."""

    number: int
    done: bool | None
    why: Coded


@cache
def step_of_case() -> dict[str, int]:
    """Read which step each case of the proof belongs to, from `data/exercise.yaml`."""
    return yaml.safe_load((Path(__file__).parent / "data/exercise.yaml").read_text())


def wrong_cases(marks: Marks, step: int) -> list[dict]:
    """The cases that belong to a step and are wrong."""
    return [row for row in marks["cases"] if row["reason"] and step_of_case()[row["case"]] == step]


def is_right(marks: Marks) -> bool:
    """Whether every case was judged and none is wrong."""
    return bool(marks["cases"]) and not any(row["reason"] for row in marks["cases"])


def borrowed(marks: Marks) -> list[str]:
    """Which of torch's own softmaxes the function calls: what they do is not the learner's."""
    called = {operation for row in marks["traffic"] for operation in row["operations"]}
    return sorted(name.removeprefix("aten::") for name in called if name.startswith(BORROWED))


def moved_bytes_ratio(marks: Marks) -> float | None:
    """Bytes moved at the lab's width over the fewest possible, one read and one write; None where they are unknown."""
    if not _moves(marks) or not is_right(marks) or borrowed(marks):
        return None
    return max(1.0, (marks["traffic"][0]["reads"] + marks["traffic"][0]["writes"]) / 2)


def steps(marks: Marks) -> list[Step]:
    """Judge the four steps, each with whether it is done and what decided it."""
    judged = [_right(marks, 1), _right(marks, 2), _one_pass(marks), _fast(marks)]
    return [Step(number, *verdict) for number, verdict in enumerate(judged, 1)]


def _right(marks: Marks, step: int) -> tuple[bool, Coded]:
    if not marks["cases"]:
        return False, {"code": "unfilled"} if marks["unfilled"] else {"code": "ended", "reason": marks["ended"]}
    wrong, of = len(wrong_cases(marks, step)), sum(step_of_case()[row["case"]] == step for row in marks["cases"])
    return not wrong, {"code": "cases", "right": of - wrong, "of": of}


def _one_pass(marks: Marks) -> tuple[bool | None, Coded]:
    if not is_right(marks):
        return False, {"code": "later"}
    if borrowed(marks):
        return False, {"code": "borrowed", "names": borrowed(marks)}
    if not _moves(marks):
        return None, {"code": "uncounted"}
    row = marks["traffic"][0]
    said = {"code": "passes", "reads": row["reads"], "writes": row["writes"], "cols": row["cols"]}
    return row["reads"] <= ONE_PASS and row["writes"] <= ONE_PASS, said


def _fast(marks: Marks) -> tuple[bool | None, Coded]:
    if not is_right(marks):
        return False, {"code": "later"}
    if borrowed(marks):
        return False, {"code": "not_yours"}
    if not marks["timed"]:
        if marks["executed_by"] == INTERPRETER:
            return None, {"code": "interpreted"}
        return False, {"code": "untimed", "reason": marks["untimed"]}
    row = marks["timed"][-1]
    said = {"code": "speed", "ratio": row["ratio_to_reference"], "noise": row["noise_floor"]}
    return _as_fast(row), {**said, "shape": [row["rows"], row["cols"]]}


def _as_fast(row: dict) -> bool:
    """Whether a timed row takes no longer than F.softmax, but for the noise."""
    return row["ratio_to_reference"] <= 1 + row["noise_floor"]


def _moves(marks: Marks) -> bool:
    return bool(marks["traffic"]) and marks["traffic"][0]["reads"] > 0


def next_steps(marks: Marks) -> list[Coded]:
    """What to try next, from what was measured; the most pressing first."""
    if marks["unfilled"]:
        return [{"code": "begin"}]
    if marks["ended"]:
        return [{"code": "ended"}]
    wrong = {row["case"] for step in (1, 2) for row in wrong_cases(marks, step)}
    if wrong:
        cases = [case for case in step_of_case() if case in wrong][:HINTS_AT_ONCE]
        return [{"code": "hint", "case": case} for case in cases]
    if borrowed(marks):
        return [{"code": "borrowed"}]
    return _about_passes(marks) or _about_speed(marks)


def _about_passes(marks: Marks) -> list[Coded]:
    if not _moves(marks):
        return []
    row = marks["traffic"][0]
    ratio = (row["reads"] + row["writes"]) / 2
    if ratio <= ONE_PASS:
        return []
    if row["operations"]:
        return [{"code": "operations", "operations": len(row["operations"]), "moved": ratio}]
    return [{"code": "passes", "moved": ratio, "share": 1 / ratio}]


def _about_speed(marks: Marks) -> list[Coded]:
    if marks["untimed"]:
        return [{"code": "untimed"}]
    if not marks["timed"]:
        return [{"code": "gpu"}, *_about_long_rows(marks)]
    small, large = marks["timed"][0], marks["timed"][-1]
    if _as_fast(large):
        advice = [{"code": "register"}, *_about_long_rows(marks)]
        if not _as_fast(small):
            advice.append({"code": "small", "rows": small["rows"], "ratio": small["ratio_to_reference"]})
        return advice
    share = large["fraction_of_copy"]
    how_near = "far" if share < FAR_FROM_COPY else "middle" if share < NEAR_COPY else "near"
    return [{"code": how_near, "shape": [large["rows"], large["cols"]], "share": share}]


def _about_long_rows(marks: Marks) -> list[Coded]:
    row = marks["traffic"][-1] if _moves(marks) else None
    if row is None or row["reads"] <= ONE_PASS:
        return []
    return [{"code": "long_rows", "cols": row["cols"], "reads": row["reads"]}]
