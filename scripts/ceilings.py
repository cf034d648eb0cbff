"""Measure a device's own limits (rule ceilings)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device = job.wildcards.device
    with own_caches():
        from minikernel.measure.ceilings import measure_ceilings

        ceilings = measure_ceilings(device, torch_device(device), log.info)
    write_artefact(job.output.ceilings, {"provenance": provenance(job.input.sources, {}, device), **ceilings})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
