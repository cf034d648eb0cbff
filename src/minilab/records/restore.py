"""Records: measurements made elsewhere, restored with a clear word on whether they still hold.

An artefact is a dict with a `provenance`; the bench has one provenance more for each kernel, under
`kernels`, and its rows then go stale kernel by kernel.
"""

from minilab.config import check_schema
from minilab.errors import LabError
from minilab.files import read_json, sha256
from minilab.records.checksums import NAME, is_altered
from minilab.records.provenance import stale_reasons

RECORD_OF_OLD = (
    "a record that another version of the lab published, or that was edited, does not fit; bring it back with git, "
    "or measure it again where its device is and publish it with `snakemake record`."
)


def restore(path: str, schema: dict, today: dict, on_stale: str) -> dict:
    """Read a record and mark what has changed since it was measured.

    Args:
        path: the record's file.
        schema: JSON Schema of the artefact.
        today: today's measuring parameters; for a bench, by kernel.
        on_stale: `mark` or `fail`.

    Returns:
        The record with `restored` added: the file it came from, its digest, `stale` and the reasons. Each
        row gets `stale`: its kernel's own in a bench, the artefact's elsewhere.

    Raises:
        LabError: the record does not fit its schema, is not what was published, or is stale and `on_stale` is `fail`.
    """
    artefact = read_json(path)
    check_schema(artefact, schema, path, RECORD_OF_OLD)
    if is_altered(path):
        raise LabError(
            f"the record {path} is not what was published: its SHA-256 is not the one in {NAME}; bring it back with "
            f"`git checkout {path}`, or measure it again on {artefact['provenance']['device']} and publish it with "
            "`snakemake record`."
        )
    reasons = _by_kernel(artefact, today)
    for row in artefact.get("rows", []):
        row["stale"] = bool(reasons.get(row["kernel"], reasons.get("")))
    sentences = reasons_of(artefact, today)
    if sentences and on_stale == "fail":
        raise LabError(
            f"the record {path} is stale ({'; '.join(sentences)}) and records.stale is 'fail'; measure it again "
            f"on {artefact['provenance']['device']} and publish it with `snakemake record`, or set records.stale "
            "to 'mark'."
        )
    restored = {"from": path, "sha256": sha256(path), "stale": bool(sentences), "reasons": sentences}
    return {**artefact, "restored": restored}


def reasons_of(artefact: dict, today: dict) -> list[str]:
    """Why a record no longer describes this checkout, in words; empty while it does. Arguments as of `restore`."""
    reasons = _by_kernel(artefact, today)
    return [f"{kernel}: {reason}" if kernel else reason for kernel in reasons for reason in reasons[kernel]]


def _by_kernel(artefact: dict, today: dict) -> dict[str, list[str]]:
    if isinstance(artefact.get("kernels"), dict):  # a bench
        return _bench_reasons(artefact, today)
    return {"": stale_reasons(artefact["provenance"], today)}


def _bench_reasons(bench: dict, today: dict) -> dict[str, list[str]]:
    reasons = {kernel: stale_reasons(made, today.get(kernel)) for kernel, made in bench["kernels"].items()}
    for kernel in today.keys() - reasons.keys():
        reasons[kernel] = ["was not measured"]
    return reasons
