"""Hold one kernel against float64 on adversarial rows, or compile it where it cannot run (rule prove)."""

import logging
import os
from importlib.util import find_spec

from minikernel.caches import own_caches
from minilab.device import is_cpu, torch_device
from minilab.files import write_json
from minilab.provenance import provenance
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, name, entry = job.wildcards.device, job.wildcards.kernel, job.params.entry
    source = entry["source"] if entry else ""
    report = {"kernel": name, "device": device, "executed_by": None, "compiled": None, "cases": []}
    with own_caches():
        if is_cpu(device) and source.endswith(".cu"):
            report["compiled"] = compiled(name, entry)
        elif is_cpu(device) and source and not find_spec("triton"):
            log.info("%s: Triton is not installed, so the kernel is neither run nor compiled here", name)
        else:
            interpreted = is_cpu(device) and bool(source)
            if interpreted:
                os.environ["TRITON_INTERPRET"] = "1"  # read by Triton as it is imported
            report["executed_by"] = "triton-interpreter" if interpreted else "cpu" if is_cpu(device) else "cuda"
            report["cases"] = proven(name, entry, torch_device(device), interpreted)
    report["provenance"] = provenance(job.input.kernel, {"entry": entry}, device)
    write_json(job.output.report, report)


def compiled(name, entry):
    from minikernel.compile_check import compile_cuda

    result = compile_cuda(entry["function"])
    if result is None:
        log.info("%s: no GPU here, and neither nvcc nor NVRTC; neither run nor compiled", name)
    else:
        log.info("%s: %d instances compiled by %s, not run", name, len(result["kernels"]), result["compiler"])
    return result


def proven(name, entry, torch_device, interpreted):
    from minikernel.proof import prove_kernel

    rows = prove_kernel(name, entry, torch_device, interpreted)
    log.info("%s: %d cases, largest relative error %.1e", name, len(rows), max(row["max_rel_err"] for row in rows))
    return rows


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
