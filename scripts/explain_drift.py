"""Say what changed between two builds, and what that changed (rule explain_drift)."""

import logging

from minilab.files import read_object
from minilab.records.drift import described, drift
from minilab.script import run
from minilab.site.glossary import write_linked

log = logging.getLogger("minilab")


def main(job):
    text = described(drift(read_object(job.input.before), read_object(job.input.after)))
    log.info("%s", text)
    write_linked(job.output.text, text, "en")


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
