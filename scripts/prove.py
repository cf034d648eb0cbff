"""Hold one kernel against float64 on adversarial rows, or compile it where it cannot run (rule prove)."""

import logging
import os
from importlib.util import find_spec

from minikernel.judge.entry import code_of, is_users
from minikernel.measure.caches import own_caches
from minikernel.ops.ladder.table import spec_of
from minikernel.reasons import in_words
from minilab import LabError
from minilab.device import has_cpp_compiler, is_cpu, torch_device
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")
NICENESS = 10  # on a CPU: training, which all measuring waits for, goes first where cores are few


def main(job):
    device, name, entry = job.wildcards.device, job.wildcards.kernel, job.params.measuring["entry"]
    source = entry["source"] if entry else ""
    report = {"kernel": name, "device": device, "verdict": "not run", "reason": None}
    report |= {"executed_by": None, "compiled": None, "cases": [], "proven_up_to": None, "code": code_of(name, entry)}
    if is_cpu(device) and spec_of(name, entry):  # a user's kernel has a time limit, by the clock
        os.nice(NICENESS)
    with own_caches():
        if is_cpu(device) and source.endswith(".cu"):
            report["compiled"] = compiled(name, entry)
        elif source.endswith(".cpp") and not has_cpp_compiler():
            log.info("%s: no C++ compiler here, so the kernel is not built", name)
        elif is_cpu(device) and source.endswith(".py") and not find_spec("triton"):
            log.info("%s: Triton is not installed, so the kernel is neither run nor compiled here", name)
        else:
            interpreted = is_cpu(device) and source.endswith(".py")
            if interpreted:
                os.environ["TRITON_INTERPRET"] = "1"  # read by Triton as it is imported
            report["executed_by"] = "triton-interpreter" if interpreted else "cpu" if is_cpu(device) else "cuda"
            report |= proven(name, entry, torch_device(device), interpreted, job.params)
    if code_of(name, entry) != report["code"]:
        raise LabError(f"kernel {name}: {report['code']['source']} changed while it was proven; run that again.")
    report["provenance"] = provenance(job.input.sources, job.params.measuring, device)
    write_artefact(job.output.report, report, "schemas/proof.schema.yaml")


def compiled(name, entry):
    from minikernel.proof.compile_cuda import compile_cuda

    result = compile_cuda(spec_of(name, entry).module)
    if result is None:
        log.info("%s: no GPU here, and neither nvcc nor NVRTC; neither run nor compiled", name)
    else:
        log.info("%s: %d instances compiled by %s, not run", name, len(result["kernels"]), result["compiler"])
    return result


def proven(name, entry, torch_device, interpreted, params):
    """The verdict and its cases. One of the lab's own kernels that fails ends the run; a user's is left out."""
    reason = None
    if is_users(name, entry):
        from minikernel.judge.proof import prove_users_kernel

        rows, reason = prove_users_kernel(name, entry, torch_device, params.time_limit_seconds, params.shapes)
    else:
        from minikernel.proof.proof import prove_kernel

        rows = prove_kernel(name, entry, torch_device, interpreted)
    if reason:
        log.warning("left out: %s", in_words(reason))
        return {"verdict": "left out", "reason": reason}
    largest = max(rows, key=lambda row: row["rows"] * row["cols"])
    log.info(
        "%s: %d cases up to %d x %d, largest relative error %.1e",
        name, len(rows), largest["rows"], largest["cols"], max(row["max_rel_err"] for row in rows),
    )  # fmt: skip
    return {"verdict": "proven", "cases": rows, "proven_up_to": [largest["rows"], largest["cols"]]}


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
