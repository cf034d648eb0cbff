"""Say where a learner stands: every exercise with what has become of it, and what to do next (rule exercise)."""

import logging

from minikernel.exercise.answers import answers_in
from minikernel.exercise.exercises import exercises
from minikernel.exercise.marks import nothing_yet, verdict
from minikernel.report.exercise_report import ladder, words
from minilab.files import read_object
from minilab.script import run
from minilab.site.glossary import write_linked

log = logging.getLogger("minilab")


def main(job):
    marked = {marks["exercise"]: marks for marks in map(read_object, job.input.marks)}
    text = words("en")
    for name, marks in marked.items():
        log.info("%s: %s", name, text(f"ladder.verdict.{verdict(marks)}"))
    log.info("%s has what to do next", job.output.report)
    for name, exercise in exercises().items():
        if exercise.source in job.input.others:
            marked[name] = nothing_yet(exercise, exercise.source, answers_in(exercise.source))
    every = [marked[name] for name in exercises() if name in marked]
    write_linked(job.output.report, ladder(every, job.params.language), job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
