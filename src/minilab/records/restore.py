"""Records: measurements made elsewhere, restored with a clear word on whether they still hold.

An artefact is a dict with a `provenance`; the bench has one provenance more for each kernel, under
`kernels`, and its rows then go stale kernel by kernel.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from minilab.config.check import read_schema
from minilab.errors import LabError
from minilab.files import read_object, sha256
from minilab.records.artefact import Artefact
from minilab.records.checksums import NAME, is_published, signature_of
from minilab.records.provenance import Reason, provenances, stale_reasons
from minilab.records.store import check_artefact, is_edited
from minilab.records.words import worded

RECORD_OF_OLD = (
    "a record that another version of the lab published, or that was edited, does not fit; bring it back with git, "
    "or measure it again where its device is and publish it with `snakemake record`."
)
# What a record is held against: by kernel for a bench, under "" for any other, parameters and the digests of sources.
Today = Mapping[str, tuple[dict, dict]]


def todays(entry: Artefact, config: dict, wildcards: Mapping[str, str], kernels: Iterable[str] = ("",)) -> Today:
    """What the checkout would measure an artefact with now; `kernels` are those of a bench."""
    places = {kernel: {**wildcards, "kernel": kernel} for kernel in kernels}
    return {kernel: (entry.params(config, at), entry.digests(config, at)) for kernel, at in places.items()}


def restore(path: str | Path, entry: Artefact, folder: str | Path, today: Today, on_stale: str) -> dict:
    """Read a record and mark what has changed since it was measured.

    Args:
        path: the record's file.
        entry: what it is.
        folder: the record of its device, where the digests lie.
        today: what it is held against.
        on_stale: `mark` or `fail`.

    Returns:
        The record with `restored` added: the file it came from, its digest, who signed it, `stale` and the reasons,
        each a code with its fields, and the kernels of today that are missing in it, where there are. Each row
        gets `stale`: its kernel's own in a bench, the artefact's elsewhere.

    Raises:
        LabError: the record does not fit its schema, is not what was published, or is stale and `on_stale` is `fail`.
    """
    path = Path(path)
    artefact = read_object(path)
    device = Path(folder).name
    again = f"measure it again on {device} and publish it with `snakemake record`"
    # Bytes first, then the signature, the form, the content, and last
    # its age: each check may trust what the one before it has seen.
    if not is_published(path, folder):
        raise LabError(
            f"the record {path} is not what was published: its SHA-256 is not the one in {Path(folder) / NAME}; bring "
            f"both back with `git checkout {folder}`, or {again}."
        )
    # unsigned is no fault: the folder then rests on git, as `verify` says
    signature = signature_of(folder)
    if signature.state == "invalid":
        raise LabError(
            f"the signature of the record {folder} is not of its {NAME}; bring both back with `git checkout {folder}`, "
            "or publish and sign the record again with `snakemake record`."
        )
    check_artefact(artefact, read_schema(entry.schema), str(path), RECORD_OF_OLD)
    if is_edited(artefact):
        raise LabError(
            f"the record {path} is not what was measured: the digest in its provenance is not its content's; bring it "
            f"back with `git checkout {path}`, or {again}."
        )
    by_kernel = reasons_by_kernel(artefact, today, folder)
    # A bench's row is stale by its own kernel alone: an edited kernel must not make the others' figures look old.
    for row in (row for row in artefact.get("rows", []) if "kernel" in row):
        row["stale"] = bool(by_kernel.get(row["kernel"], by_kernel.get("")))
    reasons = flattened(by_kernel)
    if reasons and on_stale == "fail":
        raise LabError(
            f"the record {path} is stale ({'; '.join(map(worded, reasons))}) and records.stale is 'fail'; {again}, or "
            "set records.stale to 'mark'."
        )
    restored = {"from": str(path), "sha256": sha256(path), "stale": bool(reasons), "reasons": reasons}
    restored |= {"signed_by": signature.by}
    missing = [kernel for kernel in today if kernel not in by_kernel]
    return {**artefact, "restored": restored | ({"missing": missing} if missing else {})}


def flattened(by_kernel: dict[str, list[Reason]]) -> list[Reason]:
    """Reasons in one list; one that is a kernel's own names it."""
    return [{**reason, "kernel": kernel} if kernel else reason for kernel in by_kernel for reason in by_kernel[kernel]]


def reasons_by_kernel(
    artefact: dict, today: Today, folder: str | Path | None = None, results: bool = True
) -> dict[str, list[Reason]]:
    """Why a record no longer describes this checkout; empty lists while it does.

    A kernel that was not measured then, such as one of the user's own, is missing in it and makes nothing else stale.

    Args:
        artefact: the record.
        today: what it is held against.
        folder, results: where other artefacts that decide its figures are looked for, as `stale_reasons` takes them.
    """
    reasons = {}
    for kernel, made in provenances(artefact).items():
        params, sources = today.get(kernel, (None, None))
        reasons[kernel] = stale_reasons(made, params, sources, folder, results)
    return reasons
