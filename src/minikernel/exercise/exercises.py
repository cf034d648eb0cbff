"""The table of exercises: what each asks for, and what a mark asks of a solution. Nothing heavy is imported."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from minikernel.exercise.answers import answers_in
from minilab import LabError

FOLDER = "exercises"  # where a learner fills them in
COLS = 600  # the width at which an exercise is tried most: the lab's vocabulary


@dataclass(frozen=True)
class Exercise:
    """One exercise, as `data/exercises.yaml` has it.

    Attributes:
        name: its own.
        file: the learner's, in the folder of exercises.
        operation: what it computes, of `minikernel.exercise.operations`; the function's name too.
        means: what it is to be written in: `torch`, `triton`, `cpp`, or `any`.
        counted: shapes at which its traffic is counted; the first decides.
        reads, writes: the most that a mark allows, in multiples of the input's bytes.
        cache_kib: of the cache behind which traffic is counted; 0: there is none.
        tile: elements that a Triton program may load at once; 0: any number.
        operations: of PyTorch that a row may take; 0: any number.
        timed: shape at which it is timed on a CPU; None: it is not.
        faster_than: what it must be faster than, of `minikernel.exercise.yardsticks` or `F.softmax`; empty: it is to
            be no slower than F.softmax.
        again: whether it is timed with memory for its result that is there already.
        predicts: whether it asks for a prediction first.
    """

    name: str
    file: str
    operation: str
    means: str
    counted: list[list[int]]
    reads: float
    writes: float
    cache_kib: int = 0
    tile: int = 0
    operations: int = 0
    timed: list[int] | None = None
    faster_than: str = ""
    again: bool = False
    predicts: bool = True

    @property
    def source(self) -> str:
        """The learner's file."""
        return f"{FOLDER}/{self.file}"


class Known(NamedTuple):
    """What is known of a case: the step that it belongs to, and the hint for who fails at it."""

    step: int
    hint: str


@cache
def known_cases(operation: str) -> dict[str, Known]:
    """The cases of an operation by name, from `data/cases.yaml`."""
    table = yaml.safe_load((Path(__file__).parent / "data/cases.yaml").read_text())
    return {name: Known(*known) for name, known in table[operation].items()}


@cache
def hints_by_reason(what: str) -> dict[str, str]:
    """Code of a reason -> the hint, where a case `failed` or a process `ended`, from `data/reasons.yaml`."""
    return yaml.safe_load((Path(__file__).parent / "data/reasons.yaml").read_text())[what]


@cache
def exercises() -> dict[str, Exercise]:
    """Every exercise by its name, in the order in which they are done."""
    table = yaml.safe_load((Path(__file__).parent / "data/exercises.yaml").read_text())
    return {name: Exercise(name=name, **entry) for name, entry in table.items()}


def graded() -> list[str]:
    """The exercises that a class hands in: those that ask for one thing, in one file."""
    return [name for name, exercise in exercises().items() if exercise.means != "any"]


def chosen(name: str) -> list[str]:
    """The exercises that `exercise: NAME` of the configuration means; all of them for `all`.

    Raises:
        LabError: there is none of that name.
    """
    if name == "all":
        return list(exercises())
    if name not in exercises():
        raise LabError(f"there is no exercise {name!r}; write one of {', '.join(exercises())}, or all.")
    return [name]


def has_a_roofline(names: Iterable[str]) -> bool:
    """Whether one's own softmax is among these and has been written: its dot is then worth measuring a machine for."""
    own = exercises()["mine"].source
    return "mine" in names and Path(own).is_file() and not answers_in(own).unfilled
