"""Swap a kernel into the model's final softmax and compare its prediction (rule kernel_swap)."""

import logging

from minilab import LabError
from minilab.files import read_json, sha256, write_json
from minilab.provenance import provenance
from minilab.script import run
from minimodel.kernel_swap import load_kernel, past_simple_forms, swap_softmax
from minimodel.port import load_port
from minimodel.tokenizer import Tokenizer

log = logging.getLogger("minilab")


def main(job):
    weights, device, kernel = job.input.weights, job.wildcards.device, job.params.kernel
    if read_json(job.input.equivalence)["weights"]["sha256"] != sha256(weights):
        raise LabError(f"{weights} is not the file that {job.input.equivalence} proves; build that again.")
    softmax, executed_by = load_kernel(kernel, device)
    report = {"prompt": job.params.prompt, "device": device, "kernel": kernel, "executed_by": executed_by}
    report |= swap_softmax(
        load_port(weights),
        Tokenizer.load(job.input.vocabulary),
        job.params.prompt,
        past_simple_forms(job.input.lexicon),
        softmax,
        device,
    )
    for path in ("cpu", "before", "after"):
        words = ", ".join(f"{row['word']} {row['probability']:.4f}" for row in report[path]["top"])
        log.info("%-6s %r -> %s", path, job.params.prompt, words)
    params = {"prompt": job.params.prompt, "kernel": kernel}
    report["provenance"] = provenance(getattr(job.input, "lib", []), params, device)
    write_json(job.output.report, report)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
