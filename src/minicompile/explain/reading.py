"""Captures that somebody names at a command: read, and blamed where what is done with them fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from minicompile.lowering.capture import as_capture
from minicompile.lowering.captured import Capture
from minicompile.watching.watched import checked, is_watched
from minilab import LabError
from minilab.config.check import check_schema, read_schema
from minilab.files import read_object

SCHEMA = "schemas/capture.schema.yaml"
ADVICE = "write it again with `minicompile capture`, or name another file."
FORMS = "a watched.json.xz or a capture.json"


def refuse_no_capture(
    value: object, what: str = "what was given", advice: str = "give what minicompile.capture returns."
) -> None:
    """Refuse what lacks the parts of a capture. Raises `LabError`, which names `what` and gives the advice."""
    if not isinstance(value, dict):
        raise LabError(f"{what} is no capture but of type {type(value).__name__}; {advice}")
    if lacking := sorted(Capture.__required_keys__ - value.keys()):
        raise LabError(f"{what} is no capture: it has no {lacking[0]!r}; {advice}")


@contextmanager
def captures(*paths: Path) -> Iterator[list[Capture]]:
    """Captures to explain or compare, each read or concluded from a file of a watched compile.

    Holding one against its schema takes seconds, so that is done only where the block fails: then either the file is
    to blame, or the failure stays what it is.

    Raises:
        LabError: a file is missing, is no JSON object, lacks a part, or does not fit the schema of captures.
    """
    found = [_read(path) for path in paths]
    for path, capture in zip(paths, found, strict=True):
        refuse_no_capture(capture, str(path), ADVICE)
    try:
        yield found
    except LabError:
        raise
    except Exception:
        for path, capture in zip(paths, found, strict=True):
            held = {name: value for name, value in capture.items() if name != "restored"}
            check_schema(held, read_schema(SCHEMA), str(path), ADVICE)
        raise


def _read(path: Path) -> Capture:
    value = read_object(path, ADVICE)
    return as_capture(checked(value, str(path))) if is_watched(value) else cast(Capture, value)
