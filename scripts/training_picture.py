"""Draw the port's training, eager and compiled (rule training_picture)."""

from minicompile.report.training_plot import draw
from minilab.files import replacing
from minilab.records.store import read_artefact
from minilab.script import run


def main(job):
    with replacing(job.output.picture) as picture:
        draw(read_artefact(job.input.training, job.config), picture, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
