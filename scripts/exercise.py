"""Say where a learner stands: every exercise with what has become of it, and what to do next (rule exercise)."""

import logging

from minikernel.exercise.marks import verdict
from minikernel.report.exercise_report import ladder, words
from minilab.files import read_object
from minilab.script import run
from minilab.site.glossary import write_linked

log = logging.getLogger("minilab")


def main(job):
    all_marks = [read_object(path) for path in job.input.marks]
    text = words("en")
    for marks in all_marks:
        log.info("%s: %s", marks["exercise"], text(f"ladder.verdict.{verdict(marks)}"))
    log.info("%s has what to do next", job.output.report)
    write_linked(job.output.report, ladder(all_marks, job.params.language), job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
