"""Mark the learner's softmax: right, in how many passes, how fast, and its dot on the roofline (rule exercise)."""

import logging
import os
from datetime import UTC, datetime

from minikernel.measure.caches import own_caches
from minilab.device import hardware, is_cpu, short_name, torch_device
from minilab.files import replacing
from minilab.records.store import read_artefacts
from minilab.script import run
from minilab.site.glossary import write_linked

log = logging.getLogger("minilab")
FUNCTION = "softmax"


def main(job):
    device, limits, bench, language = job.params.device, job.params.limits, job.params.bench, job.params.language
    at = torch_device(device)
    with own_caches():
        from minikernel.exercise.exercise import NAME, mark
        from minikernel.exercise.marks import moved_bytes_ratio, steps
        from minikernel.report.exercise_plot import draw_exercise
        from minikernel.report.exercise_report import advice_in_words, report, why_in_words, words

        marks = mark(str(job.input.mine), FUNCTION, at, limits, bench)
        panels = [panel_here(device, at, marks, bench), *recorded_panels(job)]
    for step in steps(marks):
        done = {True: "done", False: "not yet", None: "not judged here"}[step.done]
        title = words("en")(f"step.{step.number}")
        log.info("step %d, %s: %s (%s)", step.number, title, done, why_in_words(step, marks["source"]))
    for sentence in advice_in_words(marks):
        log.info("next: %s", sentence)
    with replacing(job.output.picture) as picture:
        draw_exercise(panels, NAME, moved_bytes_ratio(marks), picture, language)
    page = report(marks, device, os.path.basename(job.output.picture), language)
    write_linked(job.output.report, page, language)


def panel_here(device, at, marks, bench):
    """This machine's own limits, measured now, with the learner's dot where it was timed and F.softmax's anyhow."""
    from minikernel.measure.bench import REFERENCE, bench_kernel
    from minikernel.measure.ceilings import measure_ceilings
    from minikernel.ops.registry import kernels
    from minikernel.report.exercise_plot import panel_of

    largest = {**bench, "shapes": bench["shapes"][-1:]}
    rows = marks["timed"] or bench_kernel(REFERENCE, kernels[REFERENCE], lambda rows, cols: None, largest, at, log.info)
    made = hardware(device)
    name = short_name(made["cpu"] if is_cpu(device) else made["gpu"]["name"])
    ceilings = measure_ceilings(device, at, log.info)
    return panel_of(rows[-1], ceilings, device, name, f"{datetime.now(UTC):%Y-%m-%d}")


def recorded_panels(job):
    from minikernel.report.roofline import panel

    pairs = zip(job.input.get("ceilings", []), job.input.get("bench", []), strict=True)
    return [panel(*read_artefacts(pair, job.config), job.params.headline) for pair in pairs]


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
