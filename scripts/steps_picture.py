"""Draw a training step on every rung (rule steps_picture)."""

from minikernel.report.model.steps_picture import draw
from minikernel.report.model.views import the_only
from minilab.files import replacing
from minilab.records.store import read_artefact
from minilab.script import run


def main(job):
    made = read_artefact(the_only(job.input.training, job.output.png), job.config)
    with replacing(job.output.png) as png, replacing(job.output.svg) as svg:
        draw(made, png, svg, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
