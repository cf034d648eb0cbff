"""Time everybody's linear and cross-entropy, with memory and errors, in one process (rule loss_contest)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device, usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    made = provenance(job.input.sources, params, device)
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        import torch

        from minikernel.measure.loss.contest import run_contest

        torch.set_num_threads(usable_cores())
        result = run_contest(params, torch_device(device), logging.getLogger("minilab").info)
    write_artefact(job.output.loss, {"provenance": made, **result}, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
