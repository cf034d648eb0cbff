"""Mark what a learner handed in: right where, how much it moves, how fast it is.

The cases and the timing are those that every user's kernel goes through, judged from outside (`minikernel.judge`);
here a wrong case does not end the proof, because a learner wants to see all of them. What is counted is told by the
learner's own process, and decides no verdict on what is right.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from minikernel.exercise import yardsticks
from minikernel.exercise.answers import answers_in
from minikernel.exercise.cases import cases_of
from minikernel.exercise.exercises import Exercise
from minikernel.exercise.marks import INTERPRETER, Marks, exercise_of, has_a_time, is_predicted, is_right, nothing_yet
from minikernel.exercise.operations import OPERATIONS
from minikernel.judge.bench import Compared, bench_users_kernel
from minikernel.judge.client import Failed, Gone, KernelProcess, Workshop
from minikernel.judge.proof import Rounds, judge_cases
from minikernel.judge.subject import Subject
from minikernel.proof.proof import SEED
from minikernel.reasons import in_words

NAME = "mine"  # what figures call what a learner wrote; sentences call it by its exercise
NEVER_RUNS = ("not_compiled", "no_compiler")  # reasons that no other case can change
LAUNCHES, WARMUP = 9, 1
MOST_NAMES, LONGEST = 50, 80  # of operations that are told, and characters of each
ROUNDS = {"torch": Rounds((1024,), 64, 16), "cpp": Rounds((1024,), 64, 16), "triton": Rounds((), 16, 16, (True,))}
COMPILED = {"TRITON_INTERPRET": "0"}
log = logging.getLogger("minilab")


class Setting(NamedTuple):
    """Where and within what limits an exercise is marked.

    Attributes:
        workshop: of its processes; in those on the CPU Triton is interpreted.
        device: torch device for what runs on a GPU where there is one.
        seconds: that proof and bench may take, under `proof` and `bench`.
        knob: the key of the configuration that holds the proof's.
        bench: what is timed on a GPU, as `minikernel.judge.bench.bench_users_kernel` takes it.
    """

    workshop: Workshop
    device: str
    seconds: Mapping[str, float]
    knob: str
    bench: dict


def mark(exercise: Exercise, source: str, setting: Setting) -> Marks:
    """Find out whether a learner's solution is right and what it moves; how fast it is, `add_times` finds out.

    Args:
        exercise: which one it solves.
        source: the learner's file.
        setting: where it is marked.

    Returns:
        `exercise`, `source`; `executed_by`: what ran it, `cpu`, `cuda` or `triton-interpreter`; `unfilled`: whether
        the function says that it is not written yet; `predicted`: as `answers.Answers`; `ended`: the reason why the
        proof did not end, or None; `cases`: a row for each case with case, rows, cols, error (None where wrong),
        reason (None where right); `traffic`: rows as `traffic.Traffic` with rows and cols, of the operations how often
        each was called and what all its calls `moved`, none where nothing was counted; `timed`: no rows yet, and
        `untimed`: no reason why.
    """
    answers = answers_in(source)
    device = setting.device if exercise.means in ("triton", "any") else "cpu"
    marks = {**nothing_yet(exercise, source, answers), "executed_by": "cpu" if device == "cpu" else "cuda"}
    if answers.unfilled:
        return marks
    entry = {"source": os.path.abspath(source), "function": exercise.operation}
    seconds, knob = setting.seconds["proof"], setting.knob
    if device != "cpu":
        with KernelProcess(exercise.name, device, seconds, knob, COMPILED, setting.workshop) as on_a_gpu:
            marks |= _cases(exercise, on_a_gpu, entry)
    with KernelProcess(exercise.name, "cpu", seconds, knob, workshop=setting.workshop) as process:
        if device == "cpu":
            marks |= _cases(exercise, process, entry)
        if not is_right(marks) or not is_predicted(marks):
            return marks
        marks["traffic"] = _traffic(exercise, process, entry)
    if device == "cpu" and any(row["launches"] for row in marks["traffic"]):
        marks["executed_by"] = INTERPRETER  # whose time says nothing
    return marks


def add_times(marks: Marks, source: str, setting: Setting) -> None:
    """Time a solution where its time says something, on a machine that does nothing else.

    Args:
        marks: as `mark` gives them; `timed` gets the bench's rows, or `untimed` the reason why there are none.
        source: the learner's file.
        setting: where it is timed.
    """
    if not has_a_time(marks):
        return
    exercise, on_a_gpu = exercise_of(marks), marks["executed_by"] == "cuda"
    entry = {"source": os.path.abspath(source), "function": exercise.operation}
    params, compared = setting.bench, Compared(workshop=setting.workshop if on_a_gpu else None)
    if not on_a_gpu and exercise.timed:
        params = {"shapes": [exercise.timed], "dtype": "float32", "launches": LAUNCHES, "warmup": WARMUP, "seed": SEED}
        yardstick = {"source": yardsticks.__file__, "function": exercise.faster_than}
        reference = yardstick if hasattr(yardsticks, exercise.faster_than) else None
        compared = Compared(reference, alone=True, again=exercise.again, workshop=setting.workshop)
    device, seconds = setting.device if on_a_gpu else "cpu", setting.seconds["bench"]
    timed, marks["untimed"] = bench_users_kernel(NAME, entry, params, device, seconds, log.info, compared)
    marks["timed"] = timed["rows"]


def _cases(exercise: Exercise, process: KernelProcess, entry: dict) -> dict[str, Any]:
    """Try every case; what the marks hold of `cases`, `ended` and `unfilled`."""
    marked: list[dict] = []
    try:
        process.load(exercise.name, entry)
        operation = OPERATIONS[exercise.operation]
        subject = Subject(process, exercise.name, operation.tolerance, operation=operation)
        rounds = ROUNDS.get(exercise.means) if process.device == "cpu" else None
        for judged in judge_cases(subject, [], cases_of(exercise.operation), rounds):
            reason = judged.reason or {"code": ""}
            if reason["code"] in NEVER_RUNS:
                return {"ended": reason}
            if reason["code"] == "raised" and str(reason["text"]).startswith("NotImplementedError"):
                return {"unfilled": True}
            row = {"case": judged.case, "rows": judged.rows, "cols": judged.cols}
            marked.append({**row, "error": judged.error, "reason": judged.reason})
    except (Failed, Gone) as failure:
        return {"ended": failure.reason, "cases": marked}
    return {"cases": marked}


def _traffic(exercise: Exercise, process: KernelProcess, entry: dict) -> list[dict]:
    """Count what it moves, on the CPU with Triton interpreted; nothing where that cannot run it."""
    generator = torch.Generator().manual_seed(SEED)
    operation, rows = OPERATIONS[exercise.operation], []
    try:
        process.load(exercise.name, entry)
        process.place("count")
        subject = Subject(process, exercise.name, operation.tolerance, operation=operation)
        for shape in exercise.counted:
            laid = subject.lay(torch.randn(shape, generator=generator))
            cache_bytes = exercise.cache_kib << 10
            told = process.ask("traffic", name=exercise.name, x=laid.x, more=laid.more, cache_bytes=cache_bytes)
            figures = {name: process.figure(told, name) for name in ("reads", "writes", "launches", "tile")}
            whole = {name: int(figures[name]) for name in ("launches", "tile")}
            names = told.get("operations")
            operations = Counter(str(name)[:LONGEST] for name in (names if isinstance(names, list) else []))
            called = dict(operations.most_common(MOST_NAMES))
            moved = _moved(process, told.get("moved"), called)
            rows.append({"rows": shape[0], "cols": shape[1], **figures, **whole, "operations": called, "moved": moved})
    except (Failed, Gone) as failure:
        log.info("what it moves was not counted: %s", in_words(failure.reason))
        return []
    return rows


def _moved(process: KernelProcess, told: object, called: Iterable[str]) -> dict[str, list[float]]:
    """What each operation read and wrote, of those that were called, as far as the process tells it in numbers."""
    known = told if isinstance(told, dict) else {}
    pairs = {name: known[name] for name in called if isinstance(known.get(name), list) and len(known[name]) == 2}
    return {
        name: [process.figure(dict(zip(("reads", "writes"), pair, strict=True)), side) for side in ("reads", "writes")]
        for name, pair in pairs.items()
    }
