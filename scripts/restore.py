"""Bring a record back for a device that is not here, marked when it is stale (rule restore)."""

import logging

from minilab.config import read_schema
from minilab.files import write_json
from minilab.records.restore import restore
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    schema = read_schema(job.input.schema)
    artefact = restore(job.input.record, schema, job.params.today, job.params.stale)
    made, restored = artefact["provenance"], artefact["restored"]
    log.info(
        "%s restored from %s, measured on %s on %s",
        job.output.artefact,
        job.input.record,
        made["device"],
        made["date"],
    )
    for reason in restored["reasons"]:
        log.warning("stale: %s", reason)
    write_json(job.output.artefact, artefact)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
