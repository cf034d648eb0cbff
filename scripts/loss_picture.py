"""Draw time against memory of everybody's loss (rule loss_picture)."""

from minikernel.report.loss.picture import draw
from minikernel.report.loss.views import some
from minilab.files import replacing
from minilab.records.store import read_artefacts
from minilab.script import run


def main(job):
    losses = read_artefacts(some(job.input.losses, job.output.png), job.config)
    ceilings = read_artefacts(job.input.ceilings, job.config)
    with replacing(job.output.png) as png, replacing(job.output.svg) as svg:
        draw(losses, ceilings, png, svg, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
