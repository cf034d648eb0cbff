"""Search the configurations of a tuned kernel and write down the fastest for each shape (rule autotune)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device
from minilab.progress import counted
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    with own_caches():
        from minikernel.measure.autotune import autotune

        result = autotune(
            params["kernel"],
            params["shapes"],
            params["dtypes"],
            torch_device(device),
            params["time_limit_seconds"],
            counted(log, len(params["shapes"]) * len(params["dtypes"])),
            job.threads,
        )
    write_artefact(job.output.choice, {**result, "provenance": provenance(job.input.sources, params, device)})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
