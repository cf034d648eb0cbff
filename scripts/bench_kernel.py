"""Time one kernel on one device, interleaved with F.softmax and with a copy (rule bench_kernel)."""

import logging

from minikernel.measure.caches import own_caches
from minikernel.ops.ladder.table import load_kernel
from minilab.device import torch_device, usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, name, params = job.wildcards.device, job.wildcards.kernel, job.params.measuring
    read_artefact(job.input.proof, job.config)
    choices = read_artefact(job.input.choice, job.config) if job.input.get("choice") else None
    with own_caches():
        rows = bench(name, params, choices, torch_device(device))
    choice = [job.input.choice] if job.input.get("choice") else []
    made = provenance(job.input.sources, params, device, choice)
    write_artefact(job.output.rows, {"kernel": name, "provenance": made, "reason": None, "rows": rows})


def bench(name, params, choices, torch_device):
    import torch

    from minikernel.measure.bench import bench_kernel
    from minikernel.measure.choice import choose

    torch.set_num_threads(usable_cores())
    return bench_kernel(
        name,
        load_kernel(name, params["entry"]),
        lambda rows, cols: choose(choices, rows, cols, params["dtype"]) if choices else None,
        params,
        torch_device,
        log.info,
    )


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
