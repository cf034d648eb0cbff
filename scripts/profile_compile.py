"""Time a model eager and compiled, and take the compiled call apart (rule profile)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    model, device, params = job.wildcards.model, job.wildcards.device, job.params.measuring
    ceilings = read_artefact(job.input.ceilings, job.config)
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        from minicompile.profile.measure import measure

        samples = measure(model, params, job.input.checkpoint, torch_device(device), ceilings, log)
    samples["provenance"] = provenance(job.input.sources, params, device, [job.input.ceilings])
    write_artefact(job.output.samples, samples, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
