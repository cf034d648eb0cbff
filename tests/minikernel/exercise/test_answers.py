"""What a learner's file says without being run: the prediction, and whether it is filled in."""

from pathlib import Path

import pytest
from handed_in import SHIPPED, solution

from minikernel.exercise.answers import QUESTIONS, answers_in, answers_of
from minikernel.exercise.exercises import exercises


@pytest.mark.parametrize("name", exercises())
def test_every_file_that_the_lab_ships_is_empty_and_asks(name: str):
    found = answers_in(SHIPPED / exercises()[name].file)
    assert found.unfilled
    assert set(found.predicted.values()) == {None}
    asked = [
        question
        for question in QUESTIONS.values()
        if f"{question} = None" in (SHIPPED / exercises()[name].file).read_text()
    ]
    assert asked == (list(QUESTIONS.values()) if exercises()[name].predicts else [])


def test_arithmetic_and_answers_above_it_are_answers():
    found = answers_of(solution("textbook").encode())
    assert not found.unfilled
    assert found.predicted == {"reads": 5, "writes": 3, "megabytes": pytest.approx(78.6432), "share_of_copy": 0.25}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("5", 5),
        ("-1.5", -1.5),
        ("(2 + 3) * 4 / 8 - 1", 1.5),
        *((text, None) for text in ("None", "'five'", "True", "1 / 0", "1e400", "2 ** 9 ** 9", "WRITES", "len('x')")),
        *((text, None) for text in ("1e308 * 10", "10 ** 500", "1" + "0" * 400, "x := 5", "+".join(["1"] * 5000))),
    ],
)
def test_what_is_a_number_and_what_is_not(written: str, read: float | None):
    assert answers_of(f"READS = {written}\n".encode()).predicted["reads"] == read


def test_the_last_answer_counts():
    assert answers_of(b"READS = 1\nREADS = 2\n").predicted["reads"] == 2
    assert answers_of(b"READS = 1\nREADS = input()\n").predicted["reads"] is None


@pytest.mark.parametrize("text", [b"def softmax(x:\n", b"\xff\xfe", b"# ni\xf1o\n", b"\0", b"(" * 5000, b""])
def test_what_is_no_python_says_nothing(text: bytes):
    assert answers_of(text) == (False, dict.fromkeys(QUESTIONS))


def test_a_function_that_raises_among_other_things_is_written():
    assert not answers_of(
        b"def softmax(x):\n    if x.dim() > 9:\n        raise NotImplementedError\n    return x\n"
    ).unfilled
    assert answers_of(b'def softmax(x):\n    """Text."""\n    raise NotImplementedError("not yet")\n').unfilled


def test_a_file_that_is_not_there_is_an_error_of_its_own(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        answers_in(tmp_path / "nowhere.py")
