"""Hold one kernel against float64 on adversarial rows, or compile it where it cannot run (rule prove)."""

import os

from minikernel.judge.report import proof_report
from minikernel.measure.caches import own_caches
from minikernel.ops.ladder.table import spec_of
from minilab.device import is_cpu
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

NICENESS = 10  # on a CPU: training, which all measuring waits for, goes first where cores are few


def main(job):
    device, name, params = job.wildcards.device, job.wildcards.kernel, job.params
    entry = params.measuring["entry"]
    if is_cpu(device) and spec_of(name, entry):  # a user's kernel has a time limit, by the clock
        os.nice(NICENESS)
    with own_caches():
        report = proof_report(name, entry, device, params.time_limit_seconds, params.shapes)
    report["provenance"] = provenance(job.input.sources, params.measuring, device)
    write_artefact(job.output.report, report, "schemas/proof.schema.yaml")


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
