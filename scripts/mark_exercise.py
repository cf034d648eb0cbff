"""Mark one exercise: right where, what it moves, how fast, and what to try next (rule mark_exercise)."""

import logging

from minikernel.exercise.answers import answers_in
from minikernel.exercise.exercises import exercises, has_a_roofline
from minikernel.exercise.marks import nothing_yet, steps
from minikernel.exercise.workshop import workshop
from minikernel.measure.caches import own_caches
from minikernel.report.exercise_report import advice_in_words, done_in_words, report, why_in_words, words
from minilab.device import torch_device
from minilab.files import write_json
from minilab.script import run
from minilab.site.glossary import write_linked

log = logging.getLogger("minilab")


def main(job):
    exercise, source = exercises()[job.wildcards.exercise], str(job.input.source)
    answers = answers_in(source)
    marks = nothing_yet(exercise, source, answers) if answers.unfilled else marked(exercise, source, job.params)
    write_json(job.output.marks, marks)
    for number, step in enumerate(steps(marks), 1):
        why = why_in_words(step, source)
        log.info("step %d, %s: %s (%s)", number, words("en")(f"step.{step.name}"), done_in_words(step), why)
    for sentence in advice_in_words(marks):
        log.info("next: %s", sentence)
    picture = "roofline.png" if has_a_roofline([exercise.name]) else None
    language = job.params.language
    write_linked(job.output.report, report(marks, job.params.device, picture, language), language)


def marked(exercise, source, params):
    with own_caches(), workshop() as place:
        from minikernel.exercise.exercise import Setting, add_times, mark

        knob = "proof.time_limit_seconds"
        setting = Setting(place, torch_device(params.device), params.limits, knob, params.bench)
        marks = mark(exercise, source, setting)
        add_times(marks, source, setting)
        return marks


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
