"""Write the page that shows one capture, or two side by side, line by line (rules explorer, explorer_side_by_side)."""

import logging
from pathlib import Path

from minicompile.explain.explorer import render_explorer
from minilab.records.store import read_artefact, read_artefacts
from minilab.script import run

log = logging.getLogger("minilab")


def listed(paths) -> list[str]:
    """One path or several, as Snakemake or a command line gives them, as a list."""
    return [paths] if isinstance(paths, str) else list(paths)


def main(job):
    captures = read_artefacts(listed(job.input.captures), job.config)
    measured = {Path(path).parent: path for path in listed(job.input.get("profiles", []))}
    places = [Path(path).parent for path in listed(job.input.captures)]  # a profile lies beside its capture
    profiles = [read_artefact(measured[place], job.config) if place in measured else None for place in places]
    render_explorer(captures, job.output.page, profile=profiles, language=job.params.language)
    log.info("%s: %d kB", job.output.page, Path(job.output.page).stat().st_size // 1000)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
