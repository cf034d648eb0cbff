"""Draw the port's training, eager and compiled (rule training_picture)."""

from minicompile.report.training_plot import draw
from minilab.files import read_json, replacing
from minilab.script import run


def main(job):
    with replacing(job.output.picture) as picture:
        draw(read_json(job.input.training), picture, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
