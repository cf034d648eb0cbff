"""Hold everybody's linear and cross-entropy against float64 on every case (rule loss_correctness)."""

import logging
from collections import Counter

from minikernel.measure.caches import own_caches
from minilab.device import torch_device, usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")
MEMORY = 16 << 30  # of a GPU's for each process: the largest case alone takes more


def processes(device):
    """How many share a GPU: compilers keep it waiting for most of the time. On a CPU they would wait for each other."""
    import torch

    if torch.device(device).type != "cuda":
        return 1
    return max(1, min(usable_cores() // 2, torch.cuda.mem_get_info(device)[1] // MEMORY))


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    made = provenance(job.input.sources, params, device)
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        import torch

        from minikernel.proof.loss.correctness import loss_correctness

        torch.set_num_threads(usable_cores())
        place = torch_device(device)
        result = loss_correctness(params, place, log.info, processes(place))
    write_artefact(job.output.verdicts, {"provenance": made, **result}, job.input.schema)
    for verdict, count in Counter(row["verdict"] for row in result["cases"]).items():
        log.info("%s: %d of %d", verdict, count, len(result["cases"]))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
