"""Whether a published record can be trusted: its bytes, its signature, its figures, its age.

A file of a record is altered when its bytes are not those that were published, when its content is not what was
measured, or when a figure does not follow from the raw samples beside it; stale when what it was measured with, or
drawn by, has changed since; fresh otherwise. The figures are computed again by the functions that made them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name

from minilab.config.check import read_schema
from minilab.errors import LabError
from minilab.files import read_object
from minilab.records.artefact import artefact_recorded_at
from minilab.records.checksums import NAME, SIGNATURE, Signature, is_published, read_sums, signature_of
from minilab.records.provenance import Reason, provenances, stale_reasons
from minilab.records.publish import PAGES, read_pages
from minilab.records.restore import flattened, reasons_by_kernel, todays
from minilab.records.store import check_artefact, is_edited
from minilab.records.words import worded

RELATIVE = 1e-9  # the same arithmetic on the same samples; another processor may round the last digits otherwise
SHOWN = 3  # reasons of one record in the table


@dataclass
class Verdict:
    """What is known about one file of a record: `state` is fresh, stale or altered."""

    path: str
    state: str
    reasons: list[Reason] = field(default_factory=list)


def verify_device(folder: Path, config: dict) -> tuple[list[Verdict], Signature]:
    """Judge every file of a device's record.

    Args:
        folder: the record, `results/recorded/{device}`.
        config: today's configuration.

    Returns:
        The verdicts, files that are listed and gone among them, and who signed the record.
    """
    own = (NAME, SIGNATURE)
    # the list and its signature cannot be in the list
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in own)
    files = sorted(path for path in found if not path.name.startswith("."))  # that a file manager leaves, say
    verdicts = [verify(path, folder, config) for path in files]
    gone = sorted(name for name in read_sums(folder) if not (folder / name).is_file())
    # a file that is gone is found out by the list alone
    verdicts += [Verdict(str(folder / name), "altered", [{"code": "missing"}]) for name in gone]
    signature = signature_of(folder)
    if signature.state == "invalid":
        verdicts.append(Verdict(str(folder / SIGNATURE), "altered", [{"code": "signature"}]))
    return verdicts, signature


def verify(path: Path, folder: Path, config: dict) -> Verdict:
    """Judge one file of the record in `folder`."""
    name = str(path)
    if not is_published(path, folder):
        return Verdict(name, "altered", [{"code": "not_published"}])
    # no artefact: a picture or a page, which says nothing of its own making
    found = artefact_recorded_at(path, folder.parent)
    if found is None:
        reasons = _drawn_otherwise(path, folder)
        return Verdict(name, "stale" if reasons else "fresh", reasons)
    entry, wildcards = found
    try:
        artefact = read_object(path)
        check_artefact(artefact, read_schema(entry.schema), name, "measure it again.")
    except LabError as error:
        return Verdict(name, "stale", [{"code": "schema", "error": str(error).rstrip(".")}])
    if is_edited(artefact):
        return Verdict(name, "altered", [{"code": "edited"}])
    reasons = []
    # Figures are worked out again from the samples beside them:
    # somebody who raised one and renewed all digests is found out.
    if entry.recompute is not None:
        try:
            wrong = list(differences(artefact, resolve_name(entry.recompute)(artefact)))
        except Exception as lacking:  # whatever arithmetic on forged samples may raise
            reasons.append({"code": "no_samples", "name": str(lacking)})
        else:
            if wrong:
                return Verdict(name, "altered", wrong)
    today = todays(entry, config, wildcards, provenances(artefact))
    reasons += flattened(reasons_by_kernel(artefact, today, folder, results=False))
    return Verdict(name, "stale" if reasons else "fresh", reasons)


def _drawn_otherwise(path: Path, folder: Path) -> list[Reason]:
    """Why a picture or page of a record is no longer what would be drawn of it."""
    if path.name == PAGES:
        return []
    made = read_pages(folder).get(path.relative_to(folder).as_posix())
    return stale_reasons(made, None, None, folder, results=False) if made else [{"code": "undescribed"}]


def differences(stored: object, again: object, where: str = "") -> Iterator[Reason]:
    """Where a value differs from what was computed again; keys that `again` lacks are not compared."""
    if isinstance(again, dict) and isinstance(stored, dict):
        # only what can be worked out again: samples and provenance have nothing to be compared with
        for key, value in again.items():
            yield from differences(stored.get(key), value, f"{where}.{key}" if where else key)
    # lists of other lengths fall through to `_same`, as different values
    elif isinstance(again, list) and isinstance(stored, list) and len(again) == len(stored):
        for index, (one, other) in enumerate(zip(stored, again, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif not _same(stored, again):
        yield {"code": "figure", "where": where, "stored": _short(stored), "again": _short(again)}


def _same(stored: object, again: object) -> bool:
    # NaN is equal to nothing here, and no figure may be one
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
        why = [worded(reason) for reason in verdict.reasons[:SHOWN]] + ([f"and {more} more"] if more > 0 else [])
        lines.append(f"| {verdict.path} | {verdict.state} | {'; '.join(why) or 'all of it holds'} |")
    return "\n".join(lines)


def signed(folder: Path, signature: Signature) -> str:
    """A sentence on who signed a record."""
    if signature.state == "unsigned":
        return f"{folder} is not signed: that nobody edited it and renewed its digests rests on git alone."
    if signature.state == "invalid":
        return f"{folder} has a signature that is not of its digests."
    return f"{folder} is signed by {signature.by}."
