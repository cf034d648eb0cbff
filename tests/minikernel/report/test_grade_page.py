"""The page of a class has every student and every exercise, says why, and runs nothing of theirs."""

import re

import pytest
import yaml
from handed_in import SOLUTIONS
from marked_class import WRONG, book

from minikernel.exercise.exercises import graded
from minikernel.report.grade_page import SHOWN, grade_page
from minilab.pages.translations import LANGUAGES, Translations

SCHEMA = yaml.safe_load((SOLUTIONS.parents[3] / "schemas/grades.schema.yaml").read_text())


def test_every_verdict_of_the_schema_has_its_words_and_its_looks():
    known = set(SCHEMA["$defs"]["cell"]["properties"]["verdict"]["enum"])
    assert set(SHOWN) == known
    for language in LANGUAGES:
        text = Translations("minikernel.report", "grade", language)
        assert set(text.under("verdict")) == set(text.under("means")) == known


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_holds_every_student_with_every_exercise(language: str):
    page = grade_page(book(), language)
    assert page.count("<tr data-student=") == 2
    assert page.count("<td data-label=") == 2 * (1 + len(graded()))
    assert f'<html lang="{language}">' in page


def test_what_students_wrote_is_text():
    page = grade_page(book(row=WRONG))
    assert "<b>Bo</b>" not in page
    assert "&lt;b&gt;Bo&lt;/b&gt;" in page
    assert "<script>alert" not in page
    assert "Marks of 1 &lt; 2" in page


def test_a_cell_says_why():
    page = grade_page(book(row=WRONG))
    for said in (
        "while it was loaded: it failed with ValueError",
        "exp overflows float32",
        "Reads of each element: 2; writes: 1.25.",
        "3 of 4 predictions held.",
        "0.50 of the time of what it is compared with; noise 5%.",
        "as that of &lt;b&gt;Bo&lt;/b&gt;",
        "2 students: exp overflows float32 above 88.7",
    ):
        assert said in page, said
    assert page.count("data-problem>") == 2


def test_it_asks_nothing_of_the_network():
    page = grade_page(book())
    assert re.findall(r'(?:src|href)="(?!data:)[^"]+"', page) == []
    assert "default-src 'none'" in page
