"""Time one kernel on one device, interleaved with F.softmax and with a copy (rule bench_kernel)."""

import logging

from minikernel.caches import own_caches
from minilab.device import torch_device, usable_cores
from minilab.files import read_json, write_json
from minilab.provenance import provenance
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, name, params = job.wildcards.device, job.wildcards.kernel, job.params.measuring
    choices = read_json(job.input.choice) if job.input.get("choice") else None
    with own_caches():
        import torch

        from minikernel.autotune import choose
        from minikernel.bench import bench_kernel
        from minikernel.registry import load_kernel

        torch.set_num_threads(usable_cores())
        rows = bench_kernel(
            name,
            load_kernel(name, params["entry"]),
            lambda rows, cols: choose(choices, rows, cols, params["dtype"]) if choices else None,
            params,
            torch_device(device),
            log.info,
        )
    write_json(job.output.rows, {"provenance": provenance(job.input.kernel, params, device), "rows": rows})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
