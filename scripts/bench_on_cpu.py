"""Time all kernels and references of a CPU in one process, beside one copy (rule bench_on_cpu)."""

import logging

from minikernel.measure.caches import own_caches
from minikernel.ops.ladder.table import load_kernel
from minilab.device import usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import read_artefacts, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    read_artefacts(job.input.proofs, job.config)
    with own_caches():
        rows = bench(params)
    for path, name in zip(job.output.rows, params, strict=True):
        made = provenance(job.params.sources[name], params[name], device)
        own = [row for row in rows if row["kernel"] == name]
        write_artefact(path, {"kernel": name, "provenance": made, "reason": None, "rows": own})


def bench(params):
    import torch

    from minikernel.measure.cpu.bench import bench_on_cpu

    torch.set_num_threads(usable_cores())
    kernels = {name: load_kernel(name, one["entry"]) for name, one in params.items()}
    shared = next(iter(params.values()))  # how they are timed; the rest of each is its own
    return bench_on_cpu(kernels, shared, log.info)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
