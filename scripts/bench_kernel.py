"""Time one kernel on one device, interleaved with F.softmax and with a copy (rule bench_kernel)."""

import logging

from minikernel.measure.caches import own_caches
from minikernel.ops.registry import spec_of
from minikernel.proof.sandbox import run_in_sandbox
from minikernel.reasons import in_words
from minilab.device import torch_device, usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, name, params = job.wildcards.device, job.wildcards.kernel, job.params.measuring
    reason = read_artefact(job.input.proof, job.config)["reason"]
    timed = {"rows": []}
    if not reason:
        with own_caches():
            if spec_of(name, params["entry"]):
                choices = read_artefact(job.input.choice, job.config) if job.input.get("choice") else None
                timed = bench(name, params, choices, torch_device(device))
            else:
                timed, reason = bench_in_sandbox(name, params, torch_device(device), job.params.time_limit_seconds)
    if reason:
        log.warning("left out: %s", in_words(reason))
    choice = [job.input.choice] if job.input.get("choice") else []
    made = provenance(job.input.sources, params, device, choice)
    write_artefact(job.output.rows, {"kernel": name, "provenance": made, "reason": reason, **timed})


def bench(name, params, choices, torch_device):
    import torch

    from minikernel.measure.autotune import choose
    from minikernel.measure.bench import bench_kernel
    from minikernel.ops.registry import load_kernel

    torch.set_num_threads(usable_cores())
    rows = bench_kernel(
        name,
        load_kernel(name, params["entry"]),
        lambda rows, cols: choose(choices, rows, cols, params["dtype"]) if choices else None,
        params,
        torch_device,
        log.info,
    )
    return {"rows": rows}


def bench_in_sandbox(name, params, torch_device, time_limit_seconds):
    call = {"name": name, "entry": params["entry"], "params": params, "torch_device": torch_device}
    timed, reason = run_in_sandbox(
        "minikernel.measure.bench:bench_users_kernel",
        {**call, "tuning_seconds": time_limit_seconds / 2},
        name,
        torch_device,
        time_limit_seconds,
        "bench.time_limit_seconds",
    )
    return timed or {"rows": []}, reason


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
