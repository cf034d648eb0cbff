"""Hold the simulated GPU's kernels against those that a real one gets (rule simulated_vs_real)."""

import logging

from minicompile.explain.wording import Wording
from minicompile.lowering.simulated_vs_real import compare_with_real
from minilab.config import check_schema, read_schema
from minilab.files import read_json, write_json
from minilab.records.provenance import provenance
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    found = compare_with_real(read_json(job.input.simulated), read_json(job.input.real))
    found["provenance"] = provenance(job.input.sources, job.params.measuring, job.wildcards.device)
    check_schema(found, read_schema(job.input.schema), job.output.report)
    for graph in found["graphs"]:
        same = sum(kernel["source_same"] for kernel in graph["kernels"])
        log.info("%s %s: %d of %d kernels the same", found["model"], graph["id"], same, len(graph["kernels"]))
        for reason in graph["why"]:
            log.info("%s", Wording().difference(reason))
    write_json(job.output.report, found)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
