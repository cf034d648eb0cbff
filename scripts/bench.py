"""Gather the rows of all kernels of one device into bench.json, and who was left out and why (rule bench)."""

import logging

from minikernel.reasons import in_words
from minilab.config import check_schema, read_schema
from minilab.files import read_json, write_json
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    jobs, proofs = ([read_json(path) for path in paths] for paths in (job.input.jobs, job.input.proofs))
    reasons = {made["kernel"]: made["reason"] for made in [*proofs, *jobs] if made["reason"]}
    for reason in reasons.values():
        log.warning("left out: %s", in_words(reason))
    newest = max((measured["provenance"] for measured in jobs), key=lambda made: made["date"])
    bench = {
        # the device and its state are those of the last job; sources and parameters are each kernel's own
        "provenance": {**newest, "sources": {}, "params": {}},
        "kernels": {measured["kernel"]: measured["provenance"] for measured in jobs},
        "rows": [row for measured in jobs for row in measured["rows"]],
        "left_out": [{"kernel": kernel, "reason": reason} for kernel, reason in reasons.items()],
    }
    check_schema(bench, read_schema(job.input.schema), job.output.bench)
    write_json(job.output.bench, bench)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
