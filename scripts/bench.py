"""Gather the rows of all kernels of one device into bench.json, and who was left out and why (rule bench)."""

import logging

from minikernel.reasons import in_words
from minilab.records.store import read_artefacts, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    jobs, proofs = (read_artefacts(paths, job.config) for paths in (job.input.jobs, job.input.proofs))
    reasons = {made["kernel"]: made["reason"] for made in [*proofs, *jobs] if made["reason"]}
    for reason in reasons.values():
        log.warning("left out: %s", in_words(reason))
    newest = max((measured["provenance"] for measured in jobs), key=lambda made: made["date"])
    bench = {
        # the device and its state are those of the last job; sources and parameters are each kernel's own
        "provenance": {**newest, "sources": {}, "inputs": {}, "params": {}},
        "kernels": {measured["kernel"]: measured["provenance"] for measured in jobs},
        "rows": [row for measured in jobs for row in measured["rows"]],
        "left_out": [{"kernel": kernel, "reason": reason} for kernel, reason in reasons.items()],
    }
    write_artefact(job.output.bench, bench, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
