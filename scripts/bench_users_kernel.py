"""Time a kernel of the user's own, judged from outside (rule bench_users_kernel)."""

import logging

from minikernel.judge.entry import code_of
from minikernel.judge.report import first_unproven
from minikernel.measure.caches import own_caches
from minikernel.reasons import in_words
from minilab.device import torch_device
from minilab.records.provenance import provenance
from minilab.records.sources.content import changed_since
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, name, params = job.wildcards.device, job.wildcards.kernel, job.params.measuring
    proof = read_artefact(job.input.proof, job.config)
    timed, reason = {"rows": [], "autotune": None}, proof["reason"]
    if not reason and (proof["code"] != code_of(name, params["entry"]) or changed_since(proof["provenance"])):
        reason = {"code": "edited", "at": {"code": "subject", "kernel": name, "device": torch_device(device)}}
    if not reason and (shape := first_unproven(params["shapes"], proof)):
        at = {"code": "time", "kernel": name, "device": torch_device(device), "shape": shape, "dtype": params["dtype"]}
        reason = {"code": "unproven_size", "elements": shape[0] * shape[1], "at": at}
    if not reason:
        with own_caches():  # before torch is imported
            from minikernel.judge.bench import bench_users_kernel

            at, limit = torch_device(device), job.params.time_limit_seconds
            timed, reason = bench_users_kernel(name, params["entry"], params, at, limit, log.info)
    if reason:
        log.warning("left out: %s", in_words(reason))
    made = provenance(job.input.sources, params, device)
    write_artefact(job.output.rows, {"kernel": name, "provenance": made, "reason": reason, **timed})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
