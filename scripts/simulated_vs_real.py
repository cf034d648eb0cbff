"""Hold the simulated GPU's kernels against those that a real one got (rule simulated_vs_real)."""

import logging

from minicompile.lowering.capture import as_capture
from minicompile.lowering.simulated_vs_real import compare_with_real
from minicompile.watching.watched import checked
from minilab.records.provenance import concluded
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    paths = job.input.simulated, job.input.real
    simulated, real = (checked(read_artefact(path, job.config), path) for path in paths)
    found = compare_with_real(as_capture(simulated), as_capture(real))
    found["provenance"] = concluded(job.input.lib, simulated["provenance"], *paths)
    if "restored" in simulated:
        found["restored"] = simulated["restored"]
    for graph in found["graphs"]:
        same = sum(kernel["source_same"] for kernel in graph["kernels"])
        log.info("%s %s: %d of %d kernels the same", found["model"], graph["id"], same, len(graph["kernels"]))
        for reason in graph["why"]:
            log.info("%s: %s", graph["id"], reason["code"])
    write_artefact(job.output.report, found, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
