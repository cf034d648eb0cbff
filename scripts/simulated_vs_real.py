"""Hold the simulated GPU's kernels against those that a real one gets (rule simulated_vs_real)."""

import logging

import torch

from minicompile.capturing import capture
from minicompile.lowering.simulated_vs_real import compare_with_real, decided_by_a_clock
from minicompile.models import build
from minikernel.measure.caches import own_caches
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def replayed(job, real):
    """The simulated capture once more, with what a clock decided in the real one."""
    params = job.params.measuring
    torch.set_num_threads(params["threads"])
    model = build(job.wildcards.model, job.input.get("checkpoint") or None, params["entry"], tuple(params["shape"]))
    with own_caches():
        return capture(model.module, model.inputs, target="simulated", train=model.train, name=model.name, replay=real)


def main(job):
    simulated, real = (read_artefact(path, job.config) for path in (job.input.simulated, job.input.real))
    if decided_by_a_clock(simulated, real):
        log.info("the real GPU decided by timing; the simulated one is compiled again with its decisions")
        simulated = replayed(job, real)
    found = compare_with_real(simulated, real)
    found["provenance"] = provenance(
        job.input.sources, job.params.measuring, job.wildcards.device, [job.input.simulated, job.input.real]
    )
    for graph in found["graphs"]:
        same = sum(kernel["source_same"] for kernel in graph["kernels"])
        log.info("%s %s: %d of %d kernels the same", found["model"], graph["id"], same, len(graph["kernels"]))
        for reason in graph["why"]:
            log.info("%s: %s", graph["id"], reason["code"])
    write_artefact(job.output.report, found, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
