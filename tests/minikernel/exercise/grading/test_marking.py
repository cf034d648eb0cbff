"""A class is marked twice with the same verdicts, and whoever misbehaves is named, contained, and alone in it."""

from pathlib import Path

import pytest
from handed_in import MISBEHAVING, TEXTBOOK, all_right, all_wrong, class_of, hand_in, softmax_that, solution

from minikernel.exercise.exercises import exercises, graded
from minikernel.exercise.grading.marking import Limits, mark_submission, time_submission
from minikernel.exercise.grading.submissions import submissions
from minikernel.judge.client import Workshop
from minilab.device import has_cpp_compiler
from minilab.sandbox.landlock import version

LIMITS = Limits(seconds=60, memory_bytes=1 << 30)
SIGNALS = 6  # the version of Landlock that keeps them back
needs_all = pytest.mark.skipif(not has_cpp_compiler(), reason="no C++ compiler")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("class")


@pytest.fixture
def contained(folder: Path, place: Workshop) -> Workshop:
    """Where the class is hidden from what runs, which may hold no more memory than a student is given."""
    return place._replace(hidden=(folder,), memory_bytes=LIMITS.memory_bytes)


def marked(folder: Path, place: Workshop) -> dict[str, dict[str, str]]:
    """Student -> exercise -> verdict."""
    rows = [mark_submission(one, place, LIMITS) for one in submissions(folder)]
    return {row["student"]: {name: cell["verdict"] for name, cell in row["exercises"].items()} for row in rows}


@needs_all
def test_a_class_marked_twice_has_the_same_verdicts(folder: Path, contained: Workshop):
    pytest.importorskip("triton")
    right, wrong = all_right(), all_wrong(3)
    cheap = {exercises()[name].file for name in ("textbook", "row", "machine")}  # one of each means
    hand_in(folder / "right", {name: text for name, text in right.items() if name in cheap})
    hand_in(folder / "wrong", {name: text for name, text in wrong.items() if name not in cheap})
    for name in ("crashes", "torch's own", "no Python", "no prediction"):
        hand_in(folder / name, {TEXTBOOK: MISBEHAVING[name][0]})
    first, second = marked(folder, contained), marked(folder, contained)
    assert first == second
    assert {name for name, verdict in first["right"].items() if verdict == "done"} == {"textbook", "row", "machine"}
    assert {"done", "unfilled"}.isdisjoint(first["wrong"].values())
    for name in ("crashes", "torch's own", "no Python", "no prediction"):
        assert first[name] == {**dict.fromkeys(graded(), "missing"), "textbook": MISBEHAVING[name][1]}


@needs_all
def test_times_are_added_where_they_say_something_and_change_no_verdict(contained: Workshop, tmp_path: Path):
    blocks = exercises()["blocks"].file
    hand_in(tmp_path / "right", {TEXTBOOK: solution("textbook"), blocks: solution("blocks")})
    hand_in(tmp_path / "wrong", {blocks: softmax_that("return [1.0]")})
    for one in submissions(tmp_path):
        row = mark_submission(one, contained, LIMITS)
        assert set(row["marks"]) == ({"blocks"} if one.student == "right" else set())
        assert all(cell["speed"] is None for cell in row["exercises"].values())
        timed = time_submission(one, row, contained, LIMITS)
        assert {name: cell["verdict"] for name, cell in timed["exercises"].items()} == {
            name: cell["verdict"] for name, cell in row["exercises"].items()
        }
        speeds = {name: cell["speed"] for name, cell in timed["exercises"].items() if cell["speed"]}
        assert set(speeds) == set(row["marks"])
        assert all(speed["ratio"] > 0 for speed in speeds.values())


@pytest.mark.parametrize(
    ("shapes", "timed"),
    [
        ([[64, 600], [32768, 600], [524288, 600]], [32768, 600]),
        ([[64, 600], [512, 600]], [512, 600]),
        ([[1, 1 << 26]], [1, 1 << 26]),
    ],
)
def test_on_a_gpu_a_class_is_timed_at_one_shape(shapes: list, timed: list, contained: Workshop):
    limits = LIMITS._replace(bench={"shapes": shapes, "dtype": "float32"})
    assert limits.setting(contained).bench == {"shapes": [timed], "dtype": "float32"}


def test_exercises_marked_at_the_same_time_are_marked_alike(contained: Workshop, tmp_path: Path):
    hand_in(
        tmp_path / "ana",
        {TEXTBOOK: solution("textbook"), exercises()["blocks"].file: all_wrong(0)[exercises()["blocks"].file]},
    )
    [ana] = submissions(tmp_path)
    one, four = (mark_submission(ana, contained, LIMITS._replace(workers=workers)) for workers in (1, 4))
    assert one["exercises"] == four["exercises"]


def test_what_was_handed_in_anew_since_it_was_marked_is_not_timed(contained: Workshop, tmp_path: Path):
    blocks = exercises()["blocks"].file
    folder = hand_in(tmp_path / "ana", {blocks: solution("blocks")})
    [ana] = submissions(tmp_path)
    row = mark_submission(ana, contained, LIMITS)
    (folder / blocks).write_text(all_wrong(0)[blocks])
    assert time_submission(ana, row, contained, LIMITS)["exercises"] == row["exercises"]


@pytest.mark.parametrize("name", MISBEHAVING)
def test_one_that_misbehaves_is_named_and_its_others_are_marked(name: str, contained: Workshop, tmp_path: Path):
    expected = class_of(tmp_path, 0, 0, [name], odd=False)
    if name == "kills its parent" and version() >= SIGNALS:
        expected[name] = "wrong"  # it may not
    # The first limit in which this machine, perhaps a busy one, marks the other exercise.
    for seconds in (2, 30, 120) if "hangs" in name else (LIMITS.seconds,):
        row = mark_submission(submissions(tmp_path)[0], contained, LIMITS._replace(seconds=seconds))
        got = {exercise: cell["verdict"] for exercise, cell in row["exercises"].items()}
        if got["blocks"] == "done":
            break
    assert (got["textbook"], got["blocks"], got["row"]) == (expected[name], "done", "missing")
    cell = row["exercises"]["textbook"]
    assert bool(cell["reason"]) == (cell["verdict"] in ("ended", "wrong"))


@pytest.mark.skipif(not version(), reason="this kernel has no Landlock")
def test_nobody_reads_or_spoils_what_others_handed_in(folder: Path, contained: Workshop):
    hand_in(folder / "neighbour", {TEXTBOOK: solution("textbook")})
    reads = softmax_that(f"open({str(folder / 'neighbour' / TEXTBOOK)!r}).read()")
    spoils = softmax_that(f"open({str(folder / 'neighbour' / TEXTBOOK)!r}, 'w').write('')")
    for name, text in (("reads", reads), ("spoils", spoils)):
        one = hand_in(folder / name, {TEXTBOOK: text})
        row = mark_submission(next(one for one in submissions(folder) if one.student == name), contained, LIMITS)
        assert "PermissionError" in row["exercises"]["textbook"]["reason"]["text"]
        assert one.exists()
    assert (folder / "neighbour" / TEXTBOOK).read_text() == solution("textbook")
