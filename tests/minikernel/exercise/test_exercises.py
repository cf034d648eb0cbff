"""The table of exercises fits the files that are shipped, the solutions and the words."""

import pytest
from handed_in import SHIPPED, SOLUTIONS, wrong_ones

from minikernel.exercise import yardsticks
from minikernel.exercise.cases import cases_of
from minikernel.exercise.exercises import chosen, exercises, graded, has_a_roofline, hints_by_reason, known_cases
from minikernel.exercise.marks import BORROWED, LEAST
from minikernel.exercise.operations import OPERATIONS
from minikernel.judge.proof import KINDS
from minikernel.report.exercise_report import words
from minilab import LabError
from minilab.pages.translations import LANGUAGES


def test_every_file_of_exercises_is_one_of_the_table():
    assert {path.name for path in SHIPPED.glob("*.py")} == {exercise.file for exercise in exercises().values()}
    assert len({exercise.file for exercise in exercises().values()}) == len(exercises())


def test_a_class_hands_in_eight_of_which_each_has_a_solution_and_ten_wrong_ones():
    assert len(graded()) == 8
    assert {path.name for path in SOLUTIONS.glob("*.py")} == {exercises()[name].file for name in graded()}
    assert list(wrong_ones()) == graded()
    assert min(len(wrong) for wrong in wrong_ones().values()) >= 10


@pytest.mark.parametrize("exercise", exercises().values(), ids=exercises())
def test_what_an_exercise_asks_for_is_known(exercise):
    assert exercise.operation in OPERATIONS
    assert exercise.operation in BORROWED
    assert exercise.operation in LEAST
    assert exercise.faster_than in ("", "F.softmax") or hasattr(yardsticks, exercise.faster_than)
    assert exercise.reads + exercise.writes >= LEAST[exercise.operation]
    for language in LANGUAGES:
        assert f"title.{exercise.name}" in words(language)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_case_has_its_step_a_name_and_a_hint(operation: str):
    known = known_cases(operation)
    assert {case.name for case in cases_of(operation)} | set(KINDS) - {"as timed"} == set(known)
    assert {case.step for case in known.values()} == {1, 2}
    for language in LANGUAGES:
        assert set(known) <= set(words(language).under("case"))
        assert {case.hint for case in known.values()} <= set(words(language).under("hint"))


@pytest.mark.parametrize("what", ["failed", "ended"])
def test_every_reason_that_has_a_hint_has_its_words(what: str):
    assert set(hints_by_reason(what).values()) <= set(words("en").under("hint"))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_mistake_that_is_told_by_its_result_has_a_hint(operation: str):
    assert {name for name, _ in OPERATIONS[operation].mistakes} <= set(words("en").under("hint"))


def test_one_is_chosen_by_its_name():
    assert chosen("all") == list(exercises())
    assert chosen("online") == ["online"]
    with pytest.raises(LabError, match=r"there is no exercise 'softmax'; write one of textbook, blocks, .*, or all"):
        chosen("softmax")


def test_a_roofline_is_for_ones_own_softmax_once_it_is_written(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert not has_a_roofline(["mine"])
    (tmp_path / "exercises").mkdir()
    own = tmp_path / "exercises/softmax_mine.py"
    own.write_text((SHIPPED / "softmax_mine.py").read_text())
    assert not has_a_roofline(["mine"])
    own.write_text("def softmax(x):\n    return x\n")
    assert has_a_roofline(["textbook", "mine"])
    assert not has_a_roofline(["textbook"])
