"""Draw the contest of the headline GPU: share of a copy by width (rule bandwidth)."""

from minikernel.report.bandwidth_plot import draw, shares
from minilab import LabError
from minilab.files import replacing
from minilab.records.store import read_artefact
from minilab.script import run


def main(job):
    if not job.input.contest:
        raise LabError(
            "there is no GPU here or in the record, so there is no contest to draw; on a machine with one run "
            "`snakemake --cores 4 results/24/bandwidth.png`."
        )
    shown = shares(read_artefact(job.input.contest[0], job.config))
    with replacing(job.output.png) as png, replacing(job.output.svg) as svg:
        draw(shown, png, svg, job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
