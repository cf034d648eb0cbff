"""Time a model eager and compiled, and take the compiled call apart (rule profile)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.config import check_schema, read_schema
from minilab.device import torch_device
from minilab.files import read_json, write_json
from minilab.records.provenance import provenance
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    model, device, params = job.wildcards.model, job.wildcards.device, job.params.measuring
    ceilings = read_json(job.input.ceilings)
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        from minicompile.profile.measure import measure

        profile = measure(model, params, job.input.checkpoint, torch_device(device), ceilings, log)
    profile["provenance"] = provenance(job.input.sources, params, device)
    check_schema(profile, read_schema(job.input.schema), job.output.profile)
    write_json(job.output.profile, profile)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
