"""Hold the simulated GPU's kernels against those that a real one gets (rule simulated_vs_real)."""

import logging

from minicompile.lowering.simulated_vs_real import compare_with_real
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    found = compare_with_real(read_artefact(job.input.simulated, job.config), read_artefact(job.input.real, job.config))
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
