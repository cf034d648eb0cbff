"""Explain a capture's most interesting kernel, with a learner's own notes beside it (rule annotate)."""

from pathlib import Path

from minicompile.explain.annotation.annotate import annotate
from minilab.files import read_json, write_text
from minilab.script import run


def main(job):
    notes = [Path(path).read_text() for path in job.input.get("notes", [])]  # read only: they are the learner's
    text = annotate(read_json(job.input.capture), "\n\n".join(notes), job.params.language)
    write_text(job.output.annotation, text)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
