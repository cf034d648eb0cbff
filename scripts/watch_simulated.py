"""Compile a model for the simulated GPU with what a clock decided on the real one (rule watch_simulated)."""

import logging

import torch

from minicompile.models import build
from minicompile.watching.model import clock_choices, watch_model
from minikernel.measure.caches import own_caches
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    params = job.params.measuring
    clock = clock_choices(read_artefact(job.input.real, job.config))
    log.info("the real GPU decided %d times by timing; the simulated one is given that", len(clock))
    torch.set_num_threads(params["threads"])
    model = build(job.wildcards.model, job.input.get("checkpoint") or None, params["entry"], tuple(params["shape"]))
    with own_caches():
        made = watch_model(
            model.module, model.inputs, target="simulated", clock=clock, assembly=True, verify=True, **model.settings
        )
    made["provenance"] = provenance(job.input.sources, params, job.wildcards.device, [job.input.real])
    write_artefact(job.output.simulated, made, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
