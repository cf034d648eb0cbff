"""What the GPU rules' scripts are on the tests' cluster, which can reserve a GPU and has none.

A stand-in takes a figure of the H200's record for that of the device `stand-in-gpu`, and says when and where it ran and
which caches were its own. So what is tested is how workflow and scheduler work together, and nothing about a kernel.
The stand-ins take the place of scripts/ in the test's copy of the lab.
"""

import logging
import os
import time
from pathlib import Path

from minikernel.judge.entry import code_of
from minikernel.measure.caches import CACHE_VARIABLES, own_caches
from minilab import LabError
from minilab.files import read_json, write_json, write_text
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")
RECORD = Path("results/recorded/h200/24")


def main(job):
    begin = time.time()
    if os.environ.get("CUDA_VISIBLE_DEVICES") != "0":
        raise LabError(f"rule {job.rule} runs without a GPU of its own; ask the scheduler for one.")
    with own_caches():
        caches = {name: os.environ[name] for name in CACHE_VARIABLES}
        for folder in caches.values():
            Path(folder).mkdir()  # raises where another job has the same folder
        for name, output in job.output.items():
            if output.endswith(".json") and name != "watched":
                write_artefact(output, artefact(job))
            else:
                write_text(output, "stand-in\n")
        time.sleep(0.2)
    turn = {
        "rule": job.rule,
        "begin": begin,
        "end": time.time(),
        "caches": caches,
        "job": os.environ.get("SLURM_JOB_ID"),
    }
    write_json(f"turns/{Path(job.log[0]).with_suffix('.json')}", turn)
    log.info("stand-in of %s on %s", job.rule, os.environ.get("SLURMD_NODENAME", "this machine"))


def artefact(job) -> dict:
    """The record's figure as this job's."""
    device = job.wildcards.device
    made = provenance(job.input.sources, dict(job.params.get("measuring") or {}), device)
    recorded = read_json(RECORD / f"{'bench' if job.rule in ('prove', 'bench_kernel') else job.rule}.json")
    made["hardware"] = recorded["provenance"]["hardware"]
    if job.rule == "prove":
        proof = {"kernel": job.wildcards.kernel, "device": device, "verdict": "not run", "reason": None}
        code = code_of(job.wildcards.kernel, job.params.measuring["entry"])
        return {**proof, "executed_by": None, "compiled": None, "cases": [], "code": code, "provenance": made}
    if job.rule == "bench_kernel":
        kernel = job.wildcards.kernel
        rows = [row for row in recorded["rows"] if row["kernel"] == kernel]
        return {"kernel": kernel, "provenance": made, "reason": None, "rows": rows}
    return recorded | {"provenance": made}


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
