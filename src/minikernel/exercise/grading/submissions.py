"""What a class handed in: a folder for each student, and in it that student's exercise files. Nothing is run here.

Anything may lie there. Only regular files of a sensible size are taken, and no link is followed: a link could lead into
another student's folder, or out of the class. Names may be of any bytes; a slug stands for them in paths.
"""

import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from minikernel.exercise.answers import LARGEST
from minikernel.exercise.exercises import FOLDER, Exercise, exercises, graded
from minilab import LabError

LONGEST_SLUG = 60
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class Submission(NamedTuple):
    """A student's folder.

    Attributes:
        slug: its name in paths: letters, digits, hyphens.
        student: its name for people.
        folder: where it lies.
    """

    slug: str
    student: str
    folder: Path


class Taken(NamedTuple):
    """A file that was handed in: its text, or why it was not taken.

    Attributes:
        text: its bytes; None where it was not taken.
        problem: `missing`, `link`, `no_file`, `too_large` or `unreadable`; None where it was.
    """

    text: bytes | None
    problem: str | None


def submissions(folder: str | Path) -> list[Submission]:
    """The students of a class, in the order of their folders' names.

    Args:
        folder: of the class. What is no folder in it, and what begins with a dot, is nobody's.

    Raises:
        LabError: there is no such folder, it cannot be read, or no student's folder is in it.
    """
    again = "run `snakemake grade --config class=DIR` with a folder that holds one folder for each student."
    if not str(folder):
        raise LabError(f"grade marks a class, and it is not said which; {again}")
    if not Path(folder).is_dir():
        raise LabError(f"class {folder} is no folder; {again}")
    whole = Path(folder).resolve()
    if any(Path(needed).resolve().is_relative_to(whole) for needed in (__file__, sys.prefix)):
        raise LabError(
            f"class {folder} holds the lab itself, or its Python, which is hidden from students' code; {again}"
        )
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError as error:
        raise LabError(f"class {folder} cannot be read ({error.strerror}); {again}") from None
    if not names:
        raise LabError(f"class {folder} holds no student's folder; {again}")
    found = [Submission(_slug(name), _readable(name), Path(folder, name)) for name in names]
    return sorted(found, key=lambda one: os.fsencode(one.folder))


def _readable(name: str) -> str:
    """A name for people: UTF-8, or Latin-1 where it is not; nothing in it moves a cursor."""
    data = os.fsencode(name)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def _slug(name: str) -> str:
    """A name in paths: the name itself where it is plain, else what is plain of it and a digest."""
    if PLAIN.fullmatch(name) and len(name) <= LONGEST_SLUG:
        return name
    plain = "-".join(re.findall(r"[A-Za-z0-9]+", _readable(name)))[: LONGEST_SLUG - 9]
    return f"{plain or 'student'}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"


def taken(submission: Submission, exercise: Exercise) -> Taken:
    """Take an exercise's file out of a student's folder, or out of the folder of exercises in it."""
    try:
        folder = os.open(submission.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return Taken(None, "link" if submission.folder.is_symlink() else "unreadable")
    try:
        found = _taken(folder, exercise.file)
        if found.problem == "missing":
            try:
                inner = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except OSError:
                return found
            try:
                return _taken(inner, exercise.file)
            finally:
                os.close(inner)
        return found
    finally:
        os.close(folder)


def _taken(folder: int, name: str) -> Taken:
    """Take a file out of an open folder."""
    try:
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return Taken(None, "missing")
    if not stat.S_ISREG(kind):
        return Taken(None, "link" if stat.S_ISLNK(kind) else "no_file")
    try:
        with open(
            os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder), "rb"
        ) as file:
            text = file.read(LARGEST + 1)
    except OSError:
        return Taken(None, "unreadable")
    return Taken(None, "too_large") if len(text) > LARGEST else Taken(text, None)


def handed_in(submission: Submission) -> Iterator[tuple[Exercise, Taken]]:
    """Each exercise with what the student handed in."""
    for name in graded():
        yield exercises()[name], taken(submission, exercises()[name])


def digest(submission: Submission) -> str:
    """A digest of all that a student handed in: another one, and it is marked again."""
    found = hashlib.sha256()
    for exercise, file in handed_in(submission):
        found.update(f"{exercise.name} {file.problem} {hashlib.sha256(file.text or b'').hexdigest()}\n".encode())
    return found.hexdigest()


@cache
def students(folder: str) -> dict[str, Submission]:
    """The students of a class by their slugs, looked up once.

    Raises:
        LabError: as `submissions` does.
    """
    return {one.slug: one for one in submissions(folder)}
