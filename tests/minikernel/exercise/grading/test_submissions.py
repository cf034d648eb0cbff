"""What a class handed in is read without following links, whatever lies there, and nothing of it is run."""

import os
from pathlib import Path

import pytest
from handed_in import TEXTBOOK, class_of, hand_in, oddities, solution

from minikernel.exercise.exercises import exercises, graded
from minikernel.exercise.grading.submissions import digest, handed_in, submissions, taken
from minilab import LabError

EXERCISE = exercises()["textbook"]


def only(folder: Path):
    [found] = submissions(folder)
    return found


def test_each_folder_is_a_student_and_names_are_plain_in_paths(tmp_path: Path):
    expected = class_of(tmp_path / "class", 1, 0, [])
    found = {one.student: one.slug for one in submissions(tmp_path / "class")}
    assert found.keys() == expected.keys()
    assert found["right0"] == "right0"
    assert found["Muñoz, José"].startswith("Mu-oz-Jos-")
    assert all(slug.isascii() and slug.replace("-", "").isalnum() for slug in found.values())
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("name", ["a b", "a\nb", "up/..", "ñ", "x" * 200, "-rf", "a.b", "\x1b[2J", "学生", "_"])
def test_names_that_are_not_plain_get_a_slug_of_their_own(tmp_path: Path, name: str):
    name = name.replace("/", "\\")
    (tmp_path / name).mkdir()
    (tmp_path / "other").mkdir()
    slugs = {one.student: one.slug for one in submissions(tmp_path)}
    assert slugs.pop("other") == "other"
    [(student, slug)] = slugs.items()
    assert student.isprintable()
    assert len(slug) <= 60
    assert slug.isascii()
    assert not slug.startswith("-")


def test_what_is_no_file_of_a_sensible_size_is_named(tmp_path: Path):
    for name, make, verdict in oddities():
        make(hand_in(tmp_path / name, {}) / TEXTBOOK)
        found = taken(next(one for one in submissions(tmp_path) if one.student == name), EXERCISE)
        assert found.problem == (None if verdict == "ended" else verdict)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_named(tmp_path: Path):
    file = hand_in(tmp_path / "one", {TEXTBOOK: "x"}) / TEXTBOOK
    file.chmod(0)
    assert taken(only(tmp_path), EXERCISE).problem == "unreadable"
    file.parent.chmod(0)
    assert taken(only(tmp_path), EXERCISE).problem == "unreadable"
    file.parent.chmod(0o700)


def test_a_folder_of_exercises_inside_counts_but_no_link_to_one(tmp_path: Path):
    hand_in(tmp_path / "one" / "exercises", {TEXTBOOK: solution("textbook")})
    assert taken(only(tmp_path), EXERCISE).text == solution("textbook").encode()
    (tmp_path / "two").mkdir()
    (tmp_path / "two/exercises").symlink_to(tmp_path / "one/exercises")
    assert taken(submissions(tmp_path)[1], EXERCISE).problem == "missing"
    (tmp_path / "zed").symlink_to(tmp_path / "one")
    assert taken(submissions(tmp_path)[2], EXERCISE).problem == "link"


def test_the_digest_changes_with_what_is_handed_in_and_with_nothing_else(tmp_path: Path):
    folder = hand_in(tmp_path / "one", {TEXTBOOK: "a"})
    before = digest(only(tmp_path))
    (folder / "notes.txt").write_text("mine")
    os.utime(folder / TEXTBOOK, (0, 0))
    assert digest(only(tmp_path)) == before
    (folder / TEXTBOOK).write_text("b")
    after = digest(only(tmp_path))
    (folder / TEXTBOOK).unlink()
    assert len({before, after, digest(only(tmp_path))}) == 3
    assert [exercise.name for exercise, _ in handed_in(only(tmp_path))] == graded()


def test_a_class_that_is_none_is_one_sentence(tmp_path: Path):
    for folder, said in (
        ("", r"it is not said which; run `snakemake grade --config class=DIR`"),
        (tmp_path / "nowhere", r"nowhere is no folder; run"),
        (tmp_path, r"holds no student's folder; run"),
        (Path(__file__).parents[4], r"holds the lab itself"),
    ):
        with pytest.raises(LabError, match=said):
            submissions(folder)
    (tmp_path / "file").write_text("")
    (tmp_path / ".hidden").mkdir()
    with pytest.raises(LabError, match="holds no student's folder"):
        submissions(tmp_path)
