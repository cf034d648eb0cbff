"""Judge a learner's marks: which cases are wrong, whose work it is, and which of the steps are done.

A judgement is plain data, codes with fields; `minikernel.report.exercise_report` words it. What to try next follows in
`minikernel.exercise.diagnosis`.
"""

from typing import Any, NamedTuple

from minikernel.exercise.answers import QUESTIONS, Answers
from minikernel.exercise.exercises import Exercise, exercises, known_cases

BORROWED = {  # torch's own, which is not the learner's
    "softmax": ("aten::_softmax", "aten::_log_softmax", "aten::softmax", "aten::log_softmax", "aten::logsumexp"),
    "layer_norm": ("aten::native_layer_norm", "aten::layer_norm", "aten::native_batch_norm", "aten::_fused_rms_norm"),
    "cross_entropy": ("aten::_softmax", "aten::_log_softmax", "aten::logsumexp", "aten::nll_loss", "aten::softmax"),
}
BORROWED["head_loss"] = BORROWED["cross_entropy"]
LEAST = {
    "softmax": 2,
    "layer_norm": 2,
    "cross_entropy": 1,
    "head_loss": 1,
}  # reads and writes of the input's bytes that it takes
ASKED_SHAPE = (4096, 600)  # of which a prediction gives the megabytes
NEAR, NEAR_IN_TIME = 0.1, 0.25  # relative difference up to which a prediction holds, of counts and of times
LEAST_NOISE = 0.05  # medians that differ by less say nothing on a machine that does other things too
INTERPRETER = "triton-interpreter"
NOT_HERE = ("no_compiler",)  # reasons that are no fault of the learner's

Marks = dict[str, Any]  # as `minikernel.exercise.exercise.mark` returns them
Coded = dict[str, Any]  # {"code", and the fields of that code's sentence}


class Step(NamedTuple):
    """One step of an exercise; `done` is None where it could not be judged, `why` says what decided."""

    name: str
    done: bool | None
    why: Coded


class Predicted(NamedTuple):
    """A prediction beside what was found: counted, or measured; `holds` is None where either is missing."""

    question: str
    predicted: float | None
    found: float | None
    holds: bool | None


def nothing_yet(exercise: Exercise, source: str, answers: Answers) -> Marks:
    """The marks of a solution of which only the file has been read; `minikernel.exercise.exercise.mark` fills them."""
    marks: Marks = {"exercise": exercise.name, "source": source, "executed_by": "cpu", "unfilled": answers.unfilled}
    marks |= {"predicted": answers.predicted, "ended": None, "cases": [], "traffic": [], "timed": [], "untimed": None}
    return marks


def exercise_of(marks: Marks) -> Exercise:
    """The exercise that was marked."""
    return exercises()[marks["exercise"]]


def wrong_cases(marks: Marks, step: int = 0) -> list[dict]:
    """The cases that are wrong; of one of the steps 1 and 2 where that is given."""
    known = known_cases(exercise_of(marks).operation)
    return [row for row in marks["cases"] if row["reason"] and step in (0, known[row["case"]].step)]


def is_right(marks: Marks) -> bool:
    """Whether every case was judged and none is wrong."""
    return bool(marks["cases"]) and not marks["ended"] and not wrong_cases(marks)


def is_predicted(marks: Marks) -> bool:
    """Whether every question is answered that is asked."""
    return not exercise_of(marks).predicts or None not in marks["predicted"].values()


def has_a_time(marks: Marks) -> bool:
    """Whether a solution's time says something: a softmax of the learner's own, right, in no interpreter."""
    exercise, compiled = exercise_of(marks), marks["executed_by"] == "cuda"
    asked = compiled or (marks["executed_by"] == "cpu" and (exercise.timed or exercise.means == "any"))
    judged = exercise.operation == "softmax" and is_right(marks) and is_predicted(marks)
    return bool(asked) and judged and not borrowed(marks)


def borrowed(marks: Marks) -> list[str]:
    """Which of torch's own functions the solution calls: what they do is not the learner's."""
    called = {operation for row in marks["traffic"] for operation in row["operations"]}
    own = BORROWED[exercise_of(marks).operation]
    return sorted(name.removeprefix("aten::") for name in called if name.startswith(own))


def moved(marks: Marks) -> float | None:
    """Bytes moved over the fewest possible, where they were counted; None elsewhere."""
    if not is_moved(marks) or not is_right(marks) or borrowed(marks):
        return None
    row = marks["traffic"][0]
    return max(1.0, (row["reads"] + row["writes"]) / LEAST[exercise_of(marks).operation])


def is_moved(marks: Marks) -> bool:
    """Whether anything was seen to move."""
    return bool(marks["traffic"]) and marks["traffic"][0]["reads"] > 0


def predictions(marks: Marks) -> list[Predicted]:
    """Each prediction beside what was found; what was counted is shown to who has predicted."""
    found = dict.fromkeys(QUESTIONS)
    if (ratio := moved(marks)) and is_predicted(marks):
        row = marks["traffic"][0]
        moves = row["reads"] + row["writes"]
        timed = marks["timed"][-1]["fraction_of_copy"] if marks["timed"] else None
        found = {"reads": row["reads"], "writes": row["writes"]}
        found["megabytes"] = moves * 4 * ASKED_SHAPE[0] * ASKED_SHAPE[1] / 1e6
        found["share_of_copy"] = 1 / ratio if timed is None else timed
    return [
        Predicted(name, said, found[name], _holds(said, found[name], name == "share_of_copy" and bool(marks["timed"])))
        for name, said in marks["predicted"].items()
    ]


def _holds(said: float | None, found: float | None, in_time: bool) -> bool | None:
    if said is None or found is None:
        return None
    return abs(said - found) <= max((NEAR_IN_TIME if in_time else NEAR) * found, 0.01)


def steps(marks: Marks) -> list[Step]:
    """Judge the steps of an exercise, each with whether it is done and what decided it."""
    judged = {
        "predicted": _predicted(marks),
        "ordinary": _right(marks, 1),
        "every": _right(marks, 2),
        "traffic": _traffic(marks),
        "speed": _fast(marks),
    }
    if not exercise_of(marks).predicts:
        del judged["predicted"]
    return [Step(name, *verdict) for name, verdict in judged.items()]


def _predicted(marks: Marks) -> tuple[bool, Coded]:
    missing = [QUESTIONS[name] for name, said in marks["predicted"].items() if said is None]
    return not missing, {"code": "unpredicted", "names": missing} if missing else {"code": "predicted"}


def _right(marks: Marks, step: int) -> tuple[bool | None, Coded]:
    if marks["unfilled"]:
        return False, {"code": "unfilled"}
    if marks["ended"]:
        not_here = marks["ended"]["code"] in NOT_HERE
        return None if not_here else False, {"code": "ended", "reason": marks["ended"]}
    known = known_cases(exercise_of(marks).operation)
    of = sum(known[row["case"]].step == step for row in marks["cases"])
    wrong = len(wrong_cases(marks, step))
    return not wrong, {"code": "cases", "right": of - wrong, "of": of}


def _traffic(marks: Marks) -> tuple[bool | None, Coded]:
    if not is_right(marks):
        return False, {"code": "later"}
    if not is_predicted(marks):
        return False, {"code": "predict_first"}
    if borrowed(marks):
        return False, {"code": "borrowed", "names": borrowed(marks)}
    if not is_moved(marks):
        return None, {"code": "uncounted"}
    row, exercise = marks["traffic"][0], exercise_of(marks)
    said = {name: row[name] for name in ("reads", "writes", "rows", "cols")}
    if exercise.tile and row["tile"] > exercise.tile:
        return False, {"code": "tile", "tile": row["tile"], "most": exercise.tile}
    if exercise.operations and sum(row["operations"].values()) > exercise.operations * row["rows"]:
        return False, {"code": "calls", "calls": sum(row["operations"].values()), "rows": row["rows"]}
    few = row["reads"] <= exercise.reads and row["writes"] <= exercise.writes
    said |= {"most_reads": exercise.reads, "most_writes": exercise.writes}
    return few, {"code": "behind_a_cache" if exercise.cache_kib else "passes", **said}


def _fast(marks: Marks) -> tuple[bool | None, Coded]:
    if not is_right(marks):
        return False, {"code": "later"}
    if not is_predicted(marks):
        return False, {"code": "predict_first"}
    if borrowed(marks):
        return False, {"code": "not_yours"}
    if not marks["timed"]:
        if marks["untimed"]:
            return False, {"code": "untimed", "reason": marks["untimed"]}
        return None, {"code": "interpreted" if marks["executed_by"] == INTERPRETER else "not_asked"}
    row, exercise = marks["timed"][-1], exercise_of(marks)
    said = {"ratio": row["ratio_to_reference"], "noise": noise(row), "shape": [row["rows"], row["cols"]]}
    if exercise.faster_than:
        return is_faster(row), {"code": "faster", "than": exercise.faster_than, **said}
    return is_as_fast(row), {"code": "speed", **said}


def noise(row: dict) -> float:
    """The relative difference of two medians of a row up to which nothing is said."""
    return max(row["noise_floor"], LEAST_NOISE)


def is_as_fast(row: dict) -> bool:
    """Whether a timed row takes no longer than F.softmax, but for the noise."""
    return row["ratio_to_reference"] <= 1 + noise(row)


def is_faster(row: dict) -> bool | None:
    """Whether a timed row takes less time than what it is compared with; None within the noise."""
    ratio = row["ratio_to_reference"]
    return None if abs(ratio - 1) <= noise(row) else ratio < 1


def verdict(marks: Marks, with_speed: bool = True) -> str:
    """What has become of an exercise, in a word: a key under `ladder.verdict` of the catalogue.

    Args:
        marks: of the exercise.
        with_speed: whether time counts; without it the verdict is the same on every machine.
    """
    done = {step.name: step.done for step in steps(marks)}
    if marks["unfilled"]:
        return "unfilled"
    if marks["ended"]:
        return "unjudged" if marks["ended"]["code"] in NOT_HERE else "ended"
    if not marks["cases"]:
        return "unmarked"
    if not is_right(marks):
        return "wrong"
    if not done.get("predicted", True):
        return "unpredicted"
    if borrowed(marks):
        return "borrowed"
    if done["traffic"] is None and exercise_of(marks).means != "any":
        return "uncounted"
    if done["traffic"] is False:
        return "traffic"
    return "slow" if with_speed and done["speed"] is False else "done"
