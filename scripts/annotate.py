"""Explain a capture's most interesting kernel, with a learner's own notes beside it (rule annotate)."""

from pathlib import Path

from minicompile.explain.annotation.annotate import annotate
from minilab.files import write_text
from minilab.records.store import read_artefact
from minilab.script import run


def main(job):
    notes = [Path(path).read_text() for path in job.input.get("notes", [])]  # read only: they are the learner's
    text = annotate(read_artefact(job.input.capture, job.config), "\n\n".join(notes), job.params.language)
    write_text(job.output.annotation, text)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
