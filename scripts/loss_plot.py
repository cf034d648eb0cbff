"""Draw the losses of the NumPy MiniGPT's training (rule loss_plot)."""

from minilab.records.store import read_artefact
from minilab.script import run
from minimodel.loss_plot import plot_losses


def main(job):
    plot_losses(read_artefact(job.input.record, job.config), job.output.picture, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
