"""Draw what a CPU's rungs take and what they ran into (rule ladder)."""

from minikernel.report.ladder import ladder
from minikernel.report.ladder_plot import draw
from minilab import LabError
from minilab.files import replacing
from minilab.records.store import read_artefact
from minilab.script import run


def main(job):
    bench, allocation = (read_artefact(path, job.config) for path in (job.input.bench[0], job.input.allocation[0]))
    shown = ladder(bench, allocation, job.params.headline)
    if shown is None:
        raise LabError(
            f"{job.input.bench[0]} has no rung in C++ at {job.params.headline}, so there is nothing to draw."
        )
    with replacing(job.output.png) as png, replacing(job.output.svg) as svg:
        draw(shown, png, svg, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
