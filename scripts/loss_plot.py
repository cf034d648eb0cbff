"""Draw the losses of the NumPy MiniGPT's training (rule loss_plot)."""

from minilab.files import read_json
from minilab.script import run
from minimodel.loss_plot import plot_losses


def main(job):
    plot_losses(read_json(job.input.record), job.output.picture, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
