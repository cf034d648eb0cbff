"""Draw the dot of one's own softmax on the roofline, beside what a recorded GPU allows (rule exercise_roofline)."""

import logging
from datetime import UTC, datetime

from minikernel.exercise.marks import moved
from minikernel.measure.caches import own_caches
from minilab.device import hardware, torch_device
from minilab.files import read_object, replacing
from minilab.records.store import read_artefacts
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    marks, device = read_object(job.input.marks), job.params.device
    with own_caches():
        from minikernel.exercise.exercise import NAME
        from minikernel.report.exercise_plot import draw_exercise

        panels = [panel_here(device, torch_device(device), marks, job.params.bench), *recorded_panels(job)]
    with replacing(job.output.picture) as picture:
        draw_exercise(panels, NAME, moved(marks), picture, job.params.language)


def panel_here(device, at, marks, bench):
    """This machine's own limits, measured now, with the learner's dot where it was timed and F.softmax's anyhow."""
    from minikernel.measure.bench import REFERENCE, bench_kernel
    from minikernel.measure.ceilings import measure_ceilings
    from minikernel.ops.registry import kernels
    from minikernel.report.exercise_plot import panel_of

    largest = {**bench, "shapes": bench["shapes"][-1:]}
    rows = marks["timed"] or bench_kernel(REFERENCE, kernels[REFERENCE], lambda rows, cols: None, largest, at, log.info)
    ceilings = measure_ceilings(device, at, log.info)
    return panel_of(rows[-1], ceilings, device, hardware(device), f"{datetime.now(UTC):%Y-%m-%d}")


def recorded_panels(job):
    from minikernel.report.roofline import panel

    pairs = zip(job.input.get("ceilings", []), job.input.get("bench", []), strict=True)
    return [panel(*read_artefacts(pair, job.config), job.params.headline) for pair in pairs]


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
