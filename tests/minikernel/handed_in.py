"""Classes that hand in what classes hand in: right and wrong solutions, and files that misbehave in every way."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import yaml

from minikernel.exercise.exercises import exercises, graded

HERE = Path(__file__).parent
SOLUTIONS = HERE / "exercise/solutions"
SHIPPED = HERE.parents[1] / "exercises"
TEXTBOOK = exercises()["textbook"].file


def solution(name: str) -> str:
    """The right solution of an exercise."""
    return (SOLUTIONS / exercises()[name].file).read_text()


@cache
def wrong_ones() -> dict[str, list[dict]]:
    """Exercise -> wrong solutions: the `hint` that each must get, and its `edits`."""
    return yaml.safe_load((SOLUTIONS / "wrong.yaml").read_text())


def edited(name: str, edits: list[list[str]]) -> str:
    """A right solution made wrong by edits, each of which must find its place."""
    text = solution(name)
    for old, new in edits:
        assert old in text, (name, old)
        text = text.replace(old, new)
    return text


def softmax_that(does: str, imports: str = "") -> str:
    """The right solution of exercise 1, which does something else first."""
    imported = "".join(f"import {name}\n" for name in imports.split())
    return f"{imported}{solution('textbook')}".replace("    powers =", f"    {does}\n    powers =")


# What a file of exercise 1 holds that misbehaves -> its verdict.
MISBEHAVING: dict[str, tuple[str, str]] = {
    "hangs": (softmax_that("while True: pass"), "ended"),
    "hangs when imported": ("while True: pass\n", "ended"),
    "crashes": (softmax_that("ctypes.string_at(0)", "ctypes"), "ended"),
    "eats memory": (softmax_that("kept = [bytes(1 << 28).replace(b'\\0', b'x') for _ in range(1000)]"), "ended"),
    "kills its parent": (softmax_that("os.kill(os.getppid(), 9)", "os"), "ended"),
    "prints": (softmax_that("print('word ' * 100_000)"), "done"),
    "no Python": ("def softmax(x:\n", "ended"),
    "Latin-1": ("# ni\xf1o\n", "ended"),
    "another name": (solution("textbook").replace("def softmax", "def soft_max"), "ended"),
    "torch's own": (softmax_that("return torch.softmax(x, -1)"), "borrowed"),
    "torch's own by another name": (softmax_that("return x.log_softmax(-1).exp()"), "borrowed"),
    "out of sight": (softmax_that("return torch.from_numpy(__import__('numpy').exp(x.numpy(force=True)))"), "wrong"),
    "no prediction": (solution("textbook").replace("SHARE_OF_COPY = 2 / 8", "SHARE_OF_COPY = None"), "unpredicted"),
    "returns a list": (softmax_that("return [1.0]"), "wrong"),
    "deletes": (
        softmax_that("shutil.rmtree(pathlib.Path(__file__).parent, ignore_errors=True)", "pathlib shutil"),
        "done",
    ),
}


def hand_in(folder: Path, files: dict[str, str | bytes]) -> Path:
    """A student's folder with these files."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode("latin-1"))
    return folder


def all_right() -> dict[str, str]:
    """Every exercise solved."""
    return {exercises()[name].file: solution(name) for name in graded()}


def all_wrong(number: int) -> dict[str, str]:
    """Every exercise solved in a wrong way, another for another number; none that runs until it is ended."""
    files = {}
    for name in graded():
        ways = [one for one in wrong_ones()[name] if one["hint"] != "endless"]
        files[exercises()[name].file] = edited(name, ways[number % len(ways)]["edits"])
    return files


def shipped() -> dict[str, str]:
    """Nothing begun."""
    return {exercises()[name].file: (SHIPPED / exercises()[name].file).read_text() for name in graded()}


def oddities() -> Iterator[tuple[str, Callable[[Path], object], str]]:
    """What may lie in the place of exercise 1: a name for the student, what makes it, and its verdict."""
    yield "link", lambda path: path.symlink_to("/etc/passwd"), "link"
    yield "folder", lambda path: path.mkdir(), "no_file"
    yield "pipe", lambda path: os.mkfifo(path), "no_file"
    yield "large", lambda path: path.write_bytes(b"#" * (1 << 20)), "too_large"
    yield "empty", lambda path: path.write_bytes(b""), "ended"
    yield "missing", lambda path: None, "missing"


def class_of(folder: Path, right: int, wrong: int, misbehaving: list[str], odd: bool = True) -> dict[str, str]:
    """Fill a class's folder.

    Args:
        folder: to make.
        right, wrong: students who have solved everything, and who have got everything wrong.
        misbehaving: of `MISBEHAVING`, a student each, who has exercise 2 right besides.
        odd: whether some hand in what is no file, and have names that are not plain.

    Returns:
        Student's name -> the verdict that exercise 1 must get.
    """
    expected = {}
    for number in range(right):
        hand_in(folder / f"right{number}", all_right())
        expected[f"right{number}"] = "done"
    for number in range(wrong):
        hand_in(folder / f"wrong{number}", all_wrong(number))
        expected[f"wrong{number}"] = ""
    for name in misbehaving:
        text, verdict = MISBEHAVING[name]
        hand_in(folder / name, {TEXTBOOK: text, exercises()["blocks"].file: solution("blocks")})
        expected[name] = verdict
    for name, make, verdict in oddities() if odd else ():
        make(hand_in(folder / name, {}) / TEXTBOOK)
        expected[name] = verdict
    if odd:
        hand_in(Path(os.fsdecode(os.fsencode(folder) + b"/Mu\xf1oz, Jos\xe9")), shipped())
        hand_in(folder / "=1+1", {})
        (folder / "notes.txt").write_text("no student")
        (folder / "neighbour").symlink_to(folder / "right0")
        expected |= {"Muñoz, José": "unfilled", "=1+1": "missing", "neighbour": "link"}
    return expected
