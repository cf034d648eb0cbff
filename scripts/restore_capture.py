"""Bring a GPU's capture back from the record, and its plain files with it (rule restore_capture)."""

import logging

from minicompile.explain.plain_files import TEXTS, write_plain_files
from minilab.config import read_schema
from minilab.files import write_json
from minilab.records.restore import restore
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    made = restore(job.input.record, read_schema(job.input.schema), job.params.today, job.params.stale)
    restored = made["restored"]
    for reason in restored["reasons"]:
        log.warning("stale: %s", reason)
    log.info("%s restored from %s", job.output.capture, job.input.record)
    write_plain_files(made, {name: getattr(job.output, name) for name in (*TEXTS, "kernel")})
    write_json(job.output.capture, made)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
