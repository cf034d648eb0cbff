"""Bring a record back for a device that is not here, marked when it is stale (rule restore)."""

import logging
from pathlib import Path

from minilab.records.artefact import artefact_at
from minilab.records.restore import restore
from minilab.records.store import write_artefact
from minilab.records.words import worded
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    entry, wildcards = artefact_at(job.output.artefact)
    today = {
        kernel: (params, entry.digests(job.config, {**wildcards, "kernel": kernel}))
        for kernel, params in job.params.measuring.items()
    }
    artefact = restore(job.input.record, entry, Path(job.input.sums).parent, today, job.params.stale)
    made, restored = artefact["provenance"], artefact["restored"]
    log.info(
        "%s restored from %s, measured on %s on %s, %s",
        job.output.artefact,
        job.input.record,
        made["device"],
        made["date"],
        f"signed by {restored['signed_by']}" if restored["signed_by"] else "not signed",
    )
    for reason in restored["reasons"]:
        log.warning("stale: %s", worded(reason))
    if "missing" in restored:
        names = ", ".join(restored["missing"])
        log.info("%s: %s", job.input.record, worded({"code": "not_in_record", "kernels": names}))
    write_artefact(job.output.artefact, artefact)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
