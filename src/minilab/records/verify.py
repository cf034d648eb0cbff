"""Whether a published record can be trusted: its bytes, its figures, its age.

A record is altered when its bytes are not those that were published, or when a figure does not follow from the raw
samples beside it; stale when what it was measured with has changed since, or when it was published without what
this version of the lab checks; fresh otherwise. The figures are computed again by the functions that made them.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from minilab.config import check_schema
from minilab.errors import LabError
from minilab.files import read_json
from minilab.records.checksums import NAME, is_altered, read_sums
from minilab.records.restore import reasons_of

RELATIVE = 1e-9  # the same arithmetic on the same samples; another processor may round the last digits otherwise
SHOWN = 3  # reasons of one record in the table
Recount = Callable[[dict], dict]  # an artefact -> those parts of it that follow from the rest


@dataclass
class Verdict:
    """What is known about one file of a record."""

    path: str
    state: str  # fresh, stale or altered
    reasons: list[str]


def verify(path: Path, folder: Path, schema: dict | None, today: dict | None, recount: Recount | None) -> Verdict:
    """Judge one file.

    Args:
        path: the file.
        folder: the record of its device, where the digests lie.
        schema: of the artefact; None for a picture or a report, of which only the bytes are checked.
        today: today's measuring parameters, as `minilab.records.restore.restore` takes them.
        recount: computes again what follows from the samples; None where nothing does.
    """
    name = str(path)
    sums = read_sums(folder)
    if sums and is_altered(path):
        return Verdict(name, "altered", [f"its SHA-256 is not the one in {NAME}"])
    stale = [] if sums else [f"it was published without {NAME}"]
    if schema is None:
        return Verdict(name, "stale" if stale else "fresh", stale)
    try:
        artefact = read_json(path)
        check_schema(artefact, schema, name, "measure it again.")
    except LabError as error:
        return Verdict(name, "stale" if sums else "altered", [str(error).rstrip(".")])
    if recount is not None:
        try:
            wrong = list(differences(artefact, recount(artefact)))
        except KeyError as lacking:
            stale.append(f"it holds no {lacking}, from which its figures follow")
        else:
            if wrong:
                return Verdict(name, "altered", wrong)
    if today is not None:
        stale += reasons_of(artefact, today)
    return Verdict(name, "stale" if stale else "fresh", stale)


def differences(stored: object, again: object, where: str = "") -> Iterator[str]:
    """Where a value differs from what was computed again; keys that `again` lacks are not compared."""
    if isinstance(again, dict) and isinstance(stored, dict):
        for key, value in again.items():
            yield from differences(stored.get(key), value, f"{where}.{key}" if where else key)
    elif isinstance(again, list) and isinstance(stored, list) and len(again) == len(stored):
        for index, (one, other) in enumerate(zip(stored, again, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif not _same(stored, again):
        yield f"{where} is {_short(stored)}, and its samples give {_short(again)}"


def _same(stored: object, again: object) -> bool:
    if isinstance(stored, float) and isinstance(again, float):
        return math.isclose(stored, again, rel_tol=RELATIVE, abs_tol=1e-15)
    return stored == again


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:60]


def table(verdicts: list[Verdict]) -> str:
    """The verdicts in Markdown, one row a file."""
    lines = ["| record | state | why |", "|---|---|---|"]
    for verdict in verdicts:
        more = len(verdict.reasons) - SHOWN
        why = "; ".join([*verdict.reasons[:SHOWN], *([f"and {more} more"] if more > 0 else [])])
        lines.append(f"| {verdict.path} | {verdict.state} | {why or 'all of it holds'} |")
    return "\n".join(lines)
