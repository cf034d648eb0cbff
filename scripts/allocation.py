"""Measure what calls run into on a CPU: pages, the exponential, lines of memory (rule allocation)."""

import logging

from minilab.device import usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    import torch

    from minikernel.measure.cpu.allocation import allocation, exponentials, measure

    torch.set_num_threads(usable_cores())
    params = job.params.measuring
    found = allocation(*params["shape"], *measure(*params["shape"]), exponentials())
    for name, way in found["ways"].items():
        told = (name, way["median_us"], way["page_faults"], way["system_us"])
        log.info("%-14s %9.0f us, %6.0f page faults, %9.0f us in the operating system", *told)
    if found["exponential"] is None:
        log.info("no C++ compiler here, so the rungs and their exponential are left out")
    for event, state in found["counters"].items():
        if state != "counted":
            log.info("%s: the processor's counter is %s", event, state)
    made = provenance(job.input.sources, params, job.wildcards.device)
    write_artefact(job.output.allocation, {"provenance": made, **found}, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
