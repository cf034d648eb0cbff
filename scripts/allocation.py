"""Measure what a fresh result costs on a CPU (rule allocation)."""

import logging

from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    from minikernel.measure.cpu.allocation import allocation, measure

    params = job.params.measuring
    found = allocation(*params["shape"], measure(*params["shape"]))
    for name, way in found["ways"].items():
        log.info("%-13s %9.0f us, %6.0f page faults", name, way["median_us"], way["page_faults"])
    made = provenance(job.input.sources, params, job.wildcards.device)
    write_artefact(job.output.allocation, {"provenance": made, **found})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
