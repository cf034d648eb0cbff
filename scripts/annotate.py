"""Explain a capture's most interesting kernel, with a learner's own notes beside it (rule annotate)."""

from pathlib import Path

from minicompile.explain.annotation.annotate import annotate, with_notes
from minilab.files import write_text
from minilab.records.store import read_artefact
from minilab.script import run
from minilab.site.glossary import linked


def main(job):
    notes = [Path(path).read_text() for path in job.input.get("notes", [])]  # read only: they are the learner's
    capture = read_artefact(job.input.capture, job.config)
    path, language = job.output.annotation, job.params.language
    page = linked(annotate(capture, language), path, language)
    write_text(path, with_notes(page, "\n\n".join(notes), language))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
