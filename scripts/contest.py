"""Time everything of ours and every installed peer in one process (rule contest)."""

import logging

from minikernel.caches import own_caches
from minilab.device import torch_device
from minilab.files import read_json, write_json
from minilab.provenance import provenance
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    choices = read_json(job.input.choice)
    with own_caches():
        from minikernel.autotune import choose
        from minikernel.contest import run_contest

        result = run_contest(
            params, lambda rows, cols, dtype: choose(choices, rows, cols, dtype), torch_device(device), log.info
        )
    for out in result["left_out"]:
        log.info("left out: %(kernel)s %(direction)s %(rows)dx%(cols)d %(dtype)s: %(reason)s", out)
    write_json(job.output.contest, {"provenance": provenance(job.input.kernels, params, device), **result})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
