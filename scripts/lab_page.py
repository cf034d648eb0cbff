"""Write the lab's front door from what Snakemake says of the workflow and from the results (rule lab_page)."""

import logging
from pathlib import Path

from minilab.script import run
from minilab.site.account import Rule
from minilab.site.ask_snakemake import ask_snakemake
from minilab.site.render import render_lab_page


def main(job):
    params = job.params
    render_lab_page(
        job.output.page,
        rules=[Rule(**rule) for rule in params.rules],
        summary=ask_snakemake(params.config, "--detailed-summary"),
        graph=Path(job.input.graph).read_text(),
        language=params.config["language"],
    )
    logging.getLogger("minilab").info("%s: %d kB", job.output.page, Path(job.output.page).stat().st_size // 1000)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
