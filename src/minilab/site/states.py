"""Where a job's results come from: made here, restored from a record, out of date, or missing.

A restored file holds the record that it came from and what has changed since. Snakemake says whether a file that was
made here is up to date with its inputs.
"""

import csv
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minilab.config.check import check_schema
from minilab.files import read_object
from minilab.site.account import Job

RECORDS = "results/recorded/"
MISSING, STALE, OUTDATED, RESTORED, BUILT = "missing", "stale", "outdated", "restored", "built"
NEEDS_GPU, NOT_ASKED = "needs_gpu", "not_asked"
WORST_FIRST = (MISSING, STALE, OUTDATED, RESTORED, BUILT, NEEDS_GPU, NOT_ASKED)
TEXT = {"type": "string"}
SHOWN = {  # what of a restored artefact is shown here
    "required": ["provenance", "restored"],
    "properties": {
        "provenance": {"type": "object", "required": ["date", "device"], "properties": {"date": TEXT, "device": TEXT}},
        "restored": {
            "type": "object",
            "required": ["stale", "reasons"],
            "properties": {"stale": {"type": "boolean"}, "reasons": {"type": "array", "items": {"type": "object"}}},
        },
    },
}
# Seconds: Snakemake samples memory every half second, so a shorter job has no figure. After some 16 s it samples every
# 30 s, so a longer job may have held more than was seen: what is shown is the least that it took.
SAMPLED = 1.0


@dataclass(frozen=True)
class State:
    """What is known of a job's results.

    Attributes:
        kind: one of the names above.
        date: when it was built, or measured, as YYYY-MM-DD.
        device: slug of the hardware that a record was measured on.
        reasons: why it is stale, as codes with their fields, or out of date, in Snakemake's words.
        seconds, megabytes: time and largest sampled resident memory of the run, from the rule's benchmark.
    """

    kind: str
    date: str | None = None
    device: str | None = None
    reasons: tuple[dict | str, ...] = ()
    seconds: float | None = None
    megabytes: float | None = None


def _restored(job: Job) -> dict | None:
    """Read the first of a job's artefacts that was restored; None where none was.

    Raises:
        LabError: it does not say what it was restored from, and when that was measured where.
    """
    if not any(path.startswith(RECORDS) for path in job.inputs):
        return None
    for path in (output.path for output in job.outputs if output.path.endswith(".json")):
        artefact = read_object(path)
        if "restored" in artefact:
            again = f"delete it and build it again with `snakemake --cores 4 {path}`."
            check_schema(artefact, SHOWN, path, again)
            return artefact
    return None


def _benchmark(path: str | None) -> dict[str, float | None]:
    """Read seconds and megabytes from a benchmark file; a job too short to be sampled has no megabytes."""
    if path is None or not Path(path).exists():
        return {}
    with Path(path).open(newline="") as file:
        row = next(csv.DictReader(file, delimiter="\t"), {})
    try:
        seconds = float(row["s"])
        sampled = seconds >= SAMPLED and row["max_rss"] not in ("-", "NA")
        return {"seconds": seconds, "megabytes": float(row["max_rss"]) if sampled else None}
    except (KeyError, TypeError, ValueError):
        return {}  # cut short; nothing but two figures on a page depends on it


def state_of(job: Job) -> State:
    """Find out where the results of a job come from and whether they still hold."""
    if not all(Path(output.path).exists() for output in job.outputs):
        return State(MISSING)
    spent: dict[str, Any] = _benchmark(job.benchmark)
    built = max(Path(output.path).stat().st_mtime for output in job.outputs)
    date = datetime.fromtimestamp(built, UTC).date().isoformat()
    if artefact := _restored(job):
        made, restored = artefact["provenance"], artefact["restored"]
        kind = STALE if restored["stale"] else RESTORED
        return State(kind, made["date"][:10], made["device"], tuple(restored["reasons"]), **spent)
    if any(output.pending for output in job.outputs):
        reasons = {output.status for output in job.outputs} - {"ok"}
        return State(OUTDATED, date, reasons=tuple(sorted(reasons)), **spent)
    return State(BUILT, date, **spent)
