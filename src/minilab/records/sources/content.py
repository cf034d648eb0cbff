"""What a job's result follows from, by content and by no clock: its sources, and what the user's code opened.

Every rule has a parameter `content`, so that Snakemake runs a job again when the content of its sources is another,
whatever their times say. What a user's code opens is known only once it has run (`minilab.user_files`): the job leaves
a note of it, beside Snakemake's own, and the parameter stays what it was for as long as the note holds.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypedDict

from minilab.files import digest, read_json, sha256, write_json
from minilab.records.sources.digests import digest_of_code
from minilab.user_files import NOTES, opened

KEPT = Path(".snakemake/opened")  # as long as Snakemake's own notes, and no longer
BUILT, IN_GIT = "results/", "results/recorded/"  # results count by what made them, but for those that are in git


class Note(TypedDict):
    """What a job leaves: its parameter `content`, the digest of its sources, and that of each file that was opened."""

    content: str
    sources: str
    opened: dict[str, str | None]


def content(inputs: Iterable[str], outputs: Iterable[str]) -> str:
    """What the result of a job follows from, as one digest.

    Args:
        inputs: the job's; results among them are left out.
        outputs: the job's, the first of which its note is found by.
    """
    sources, note = _sources(tuple(inputs)), _note(outputs)
    if note is None:
        return sources
    today = {path: _print_of(path) for path in note["opened"]}
    if note["sources"] == sources and note["opened"] == today:
        return note["content"]
    return digest([sources, today])


@contextmanager
def noting(given: str | None, inputs: Iterable[str], outputs: Iterable[str]) -> Iterator[None]:
    """A block that does a job; what the user's code opened in it is noted where it ends well.

    Args:
        given: the job's parameter `content`; None: no note is left, as of a script that is run by hand.
        inputs, outputs: the job's.
    """
    began, sources = time.time(), _sources(tuple(inputs)) if given is not None else ""
    with tempfile.NamedTemporaryFile(prefix="minigpt-lab-") as notes:
        os.environ[NOTES] = notes.name
        try:
            yield
        finally:
            del os.environ[NOTES]
        if given is not None:
            _write(outputs, {"content": given, "sources": sources, "opened": _prints(opened(notes.name), began)})


def _write(outputs: Iterable[str], note: Note) -> None:
    """Leave a note where there is something to know, and none else."""
    for kept in _kept(outputs):
        if note["opened"] or note["content"] != note["sources"]:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_json(kept, note)
        else:
            kept.unlink(missing_ok=True)


def _note(outputs: Iterable[str]) -> Note | None:
    """The note of the job that made these; None where there is none that can be read."""
    for kept in _kept(outputs):
        if kept.is_file():
            with suppress(Exception):  # cut off, or of another version: then it is as if nothing were known
                note = read_json(kept)
                if note.keys() == Note.__annotations__.keys():
                    return note
    return None


def _kept(outputs: Iterable[str]) -> list[Path]:
    return [KEPT / f"{path}.json" for path in list(outputs)[:1] if not os.path.isabs(path)]


def _sources(inputs: tuple[str, ...]) -> str:
    counted = {path for path in inputs if path.startswith(IN_GIT) or not path.startswith(BUILT)}
    return digest({path: _print_of(path) for path in sorted(counted)})


def _prints(paths: Iterable[str], began: float) -> dict[str, str | None]:
    """The digest of each file; one that was changed since gets one that no file has: nobody knows which was read."""
    found = {}
    for path in paths:
        found[path] = _print_of(path)
        with suppress(OSError):
            if os.stat(path).st_ctime > began:
                found[path] = "changed meanwhile"
    return found


@cache
def _print_of(path: str) -> str | None:
    """SHA-256 of a file's bytes, or of the names in a folder; None where there is neither."""
    try:
        if os.path.isdir(path):
            names = sorted(name for name in os.listdir(path) if name != "__pycache__")
            return hashlib.sha256("\0".join(names).encode()).hexdigest()
        return sha256(path)
    except OSError:
        return None


def digests_of_opened() -> dict[str, str]:
    """What the user's code has opened in this job by now: file -> digest of what it means."""
    if not (notes := os.environ.get(NOTES)) or not os.path.isfile(notes):
        return {}
    return {path: digest_of_code(path) for path in opened(notes) if os.path.isfile(path)}


def changed_since(made: Mapping) -> list[str]:
    """The files that the user's code opened for a result, by its provenance, and that are gone or others by now."""
    held = made.get("opened", {})
    return [path for path, before in held.items() if not os.path.isfile(path) or digest_of_code(path) != before]
