"""Write the page of one forward pass, block by block (rule timeline)."""

import logging
from pathlib import Path

from minikernel.report.model.timeline import timeline_page
from minikernel.report.model.views import the_only
from minilab.files import write_text
from minilab.records.store import read_artefact
from minilab.script import run


def main(job):
    made = read_artefact(the_only(job.input.model, job.output.page), job.config)
    training = next((read_artefact(path, job.config) for path in job.input.training), None)
    write_text(job.output.page, timeline_page(made, job.params.language, training))
    logging.getLogger("minilab").info("%s: %d kB", job.output.page, Path(job.output.page).stat().st_size // 1000)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
