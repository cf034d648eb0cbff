"""Write the page that asks what a knob of torch.compile changes, then shows it (rule what_if_page)."""

import logging
from pathlib import Path

from minicompile.explain.what_if import render_what_if
from minilab.records.store import read_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    render_what_if(read_artefact(job.input.found, job.config), job.output.page, job.params.language)
    log.info("%s: %d kB", job.output.page, Path(job.output.page).stat().st_size // 1000)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
