"""The table of a class: what is alike, where students stumble, and nothing in it that a spreadsheet would run."""

import csv
import io
from pathlib import Path

import pytest
from artefacts import ladder
from handed_in import all_right, hand_in, shipped

from minikernel.exercise.exercises import graded
from minikernel.exercise.grading.gradebook import NOTHING, as_csv, gradebook, not_marked, read_only, row_of
from minikernel.exercise.grading.submissions import submissions
from minilab.config.check import check_schema, read_schema

SCHEMA = read_schema(Path(__file__).parents[4] / "schemas/grades.schema.yaml")


def row(student: str, **cells: dict) -> dict:
    exercises = {name: {**NOTHING, **cells.get(name, {})} for name in graded()}
    return {"student": student, "slug": student.strip("=+-@\t") or "x", "exercises": exercises}


def test_rows_fit_the_schema_and_count_what_is_done():
    answered = {"reads": 1, "writes": 1, "megabytes": 1, "share_of_copy": 1}
    right = row_of(ladder(exercise="row", predicted=answered))
    wrong = row_of(ladder(exercise="row", traffic={"reads": 2.0}, predicted=answered))
    book = gradebook("a class", [row("ana", row=right), row("bo", row=wrong), row("cy")])
    check_schema(book, SCHEMA, "grades.json")
    assert [one["done"] for one in book["students"]] == [1, 0, 0]
    assert book["students"][1]["exercises"]["row"]["verdict"] == "traffic"
    assert book["students"][1]["exercises"]["row"]["hints"] == ["second_read"]
    assert (right["held"], right["traffic"]) == (3, {"reads": 1.0, "writes": 1.0})
    assert book["stumbles"]["row"] == [{"hint": "second_read", "students": 1}]
    assert book["stumbles"]["blocks"] == []


def test_the_same_code_is_told_of_both_and_of_no_other_exercise():
    one = {"verdict": "done", "digest": "a" * 64}
    book = gradebook("a class", [row("ana", row=one), row("bo", row=one), row("cy", online=one)])
    alike = [cell["exercises"]["row"]["alike"] for cell in book["students"]]
    assert alike == [["bo"], ["ana"], []]
    assert book["students"][2]["exercises"]["online"]["alike"] == []


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@sum", "\tx"])
def test_a_name_is_no_formula(name: str):
    [head, line] = csv.reader(io.StringIO(as_csv(gradebook("a class", [row(name)]))))
    assert head == ["student", *graded(), "done"]
    assert line[0] == f"'{name}"


def test_names_with_commas_and_quotes_stay_one_cell():
    [_, line] = csv.reader(io.StringIO(as_csv(gradebook("a class", [row('Muñoz, "José"')]))))
    assert line == ['Muñoz, "José"', *["missing"] * len(graded()), "0"]


def test_what_is_not_begun_or_missing_is_known_by_reading(tmp_path: Path):
    hand_in(tmp_path / "right", all_right())
    hand_in(tmp_path / "shipped", shipped())
    right, empty = submissions(tmp_path)
    assert read_only(right) == {}
    assert {cell["verdict"] for cell in read_only(empty).values()} == {"unfilled"}
    assert list(read_only(empty)) == graded()


def test_marking_that_came_to_an_end_is_a_row_too(tmp_path: Path):
    hand_in(tmp_path / "one", all_right())
    found = not_marked(submissions(tmp_path)[0], "the marking itself ended with exit status -9; its log says where")
    check_schema(gradebook("a class", [found]), SCHEMA, "grades.json")
    assert {cell["verdict"] for cell in found["exercises"].values()} == {"unmarked"}
