"""Records: measurements made elsewhere, restored with a clear word on whether they still hold.

An artefact is a dict with a `provenance`; the bench has one provenance more for each kernel, under
`kernels`, and its rows then go stale kernel by kernel.
"""

from minilab.config import check_schema
from minilab.errors import LabError
from minilab.files import read_json, sha256
from minilab.provenance import stale_reasons


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
        LabError: the record does not fit its schema, or it is stale and `on_stale` is `fail`.
    """
    artefact = read_json(path)
    check_schema(artefact, schema, path)
    if isinstance(artefact.get("kernels"), dict):  # a bench
        reasons = _bench_reasons(artefact, today)
    else:
        reasons = {"": stale_reasons(artefact["provenance"], today)}
    for row in artefact.get("rows", []):
        row["stale"] = bool(reasons.get(row["kernel"], reasons.get("")))
    sentences = [f"{kernel}: {reason}" if kernel else reason for kernel in reasons for reason in reasons[kernel]]
    if sentences and on_stale == "fail":
        raise LabError(
            f"the record {path} is stale ({'; '.join(sentences)}) and records.stale is 'fail'; measure it again "
            f"on {artefact['provenance']['device']} and publish it with `snakemake record`, or set records.stale "
            "to 'mark'."
        )
    restored = {"from": path, "sha256": sha256(path), "stale": bool(sentences), "reasons": sentences}
    return {**artefact, "restored": restored}


def _bench_reasons(bench: dict, today: dict) -> dict[str, list[str]]:
    reasons = {kernel: stale_reasons(made, today.get(kernel)) for kernel, made in bench["kernels"].items()}
    for kernel in today.keys() - reasons.keys():
        reasons[kernel] = ["was not measured"]
    return reasons
