"""Mark one exercise: right where, what it moves, how fast, and what to try next (rule mark_exercise)."""

import logging

from minikernel.exercise.answers import answers_in
from minikernel.exercise.exercises import exercises, has_a_roofline
from minikernel.exercise.marks import nothing_yet, steps
from minikernel.exercise.workshop import marked
from minikernel.report.exercise_report import advice_in_words, done_in_words, report, why_in_words, words
from minilab.files import write_json
from minilab.script import run
from minilab.site.glossary import write_linked

log = logging.getLogger("minilab")


def main(job):
    exercise, source = exercises()[job.wildcards.exercise], str(job.input.source)
    answers = answers_in(source)
    if answers.unfilled:
        marks = nothing_yet(exercise, source, answers)
    else:
        marks = marked(exercise, source, job.params.device, job.params.limits, job.params.bench)
    write_json(job.output.marks, marks)
    for number, step in enumerate(steps(marks), 1):
        why = why_in_words(step, source)
        log.info("step %d, %s: %s (%s)", number, words("en")(f"step.{step.name}"), done_in_words(step), why)
    for sentence in advice_in_words(marks):
        log.info("next: %s", sentence)
    picture = "roofline.png" if has_a_roofline([exercise.name]) else None
    language = job.params.language
    write_linked(job.output.report, report(marks, job.params.device, picture, language), language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
