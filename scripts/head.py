"""Time the LM head, fused and not, in one process (rule head)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device, usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    made = provenance(job.input.sources, params, device)
    with own_caches():
        import torch

        from minikernel.measure.contest.head import run_head

        torch.set_num_threads(usable_cores())
        result = run_head(params, torch_device(device), log.info)
    write_artefact(job.output.head, {"provenance": made, **result})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
