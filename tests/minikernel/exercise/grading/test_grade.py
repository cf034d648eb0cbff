"""Marking and timing end with rows, whatever becomes of the process that does them."""

from pathlib import Path

import pytest
from handed_in import TEXTBOOK, hand_in, softmax_that, solution

from minikernel.exercise.exercises import exercises
from minikernel.exercise.grading.grade import mark_apart, time_apart
from minikernel.exercise.grading.submissions import students
from minilab import LabError

LIMITS = {"seconds": 60, "memory_bytes": 1 << 30}
BLOCKS = exercises()["blocks"].file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    for name in ("ana", "bo"):
        hand_in(folder / name, {TEXTBOOK: softmax_that("print('word')"), BLOCKS: solution("blocks")})
    return folder


def test_a_student_is_marked_and_timed_and_who_ends_the_process_stops_nobody(folder: Path, tmp_path: Path, caplog):
    ana = mark_apart(students(str(folder))["ana"], LIMITS, tmp_path)
    assert ana["exercises"]["blocks"]["verdict"] == "done"
    bo = {**ana, "slug": "bo"}  # who has handed in the same
    nobody = {**ana, "slug": "nobody"}  # who is not in the class: the process ends with a KeyError
    timed = list(time_apart(str(folder), [ana, nobody, bo], LIMITS, tmp_path))
    assert [row["slug"] for row in timed] == ["ana", "nobody", "bo"]
    assert [bool(row["exercises"]["blocks"]["speed"]) for row in timed] == [True, False, True]
    assert "nobody has no times: the timing ended with exit status 1" in caplog.text


def test_a_marking_that_ends_without_a_row_says_so(folder: Path, tmp_path: Path):
    ana = students(str(folder))["ana"]
    with pytest.raises(LabError, match="the marking itself ended with exit status 1; its log says where"):
        mark_apart(ana._replace(slug="nobody"), LIMITS, tmp_path)
