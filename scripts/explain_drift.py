"""Say what changed between two builds, and what that changed (rule explain_drift)."""

import logging

from minilab.files import read_object, write_text
from minilab.records.drift import described, drift
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    text = described(drift(read_object(job.input.before), read_object(job.input.after)))
    log.info("%s", text)
    write_text(job.output.text, text)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
