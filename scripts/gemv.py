"""Time compiled matrix-vector products beside cuBLAS's (rule gemv)."""

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

        from minicompile.profile.gemv import measure_gemv

        torch.set_num_threads(usable_cores())
        result = measure_gemv(params, torch.device(torch_device(device)), log.info)
    write_artefact(job.output.gemv, {"provenance": made, **result}, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
