"""Draw a training step on every rung (rule steps_picture)."""

from minikernel.report.model.steps_picture import draw
from minikernel.report.model.views import the_only
from minilab.files import replacing
from minilab.records.store import read_artefacts
from minilab.script import run


def main(job):
    made, ceilings = the_only(job.input.training, job.output.png), job.input.ceilings
    with replacing(job.output.png) as png, replacing(job.output.svg) as svg:
        draw(*read_artefacts([made, *ceilings], job.config), png, svg, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
