"""Swap a kernel into the model's final softmax and compare its prediction (rule kernel_swap)."""

import logging

from minikernel.measure.caches import own_caches
from minikernel.proof.kernel_swap import kernel_for, past_simple_forms, swap_softmax
from minilab import LabError
from minilab.files import sha256
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run
from minimodel.port import load_port
from minimodel.tokenizer import Tokenizer

log = logging.getLogger("minilab")


def main(job):
    weights, device, params = job.input.weights, job.wildcards.device, job.params.measuring
    prompt, kernel = params["prompt"], params["kernel"]
    if read_artefact(job.input.equivalence, job.config)["weights"]["sha256"] != sha256(weights):
        raise LabError(f"{weights} is not the file that {job.input.equivalence} proves; build that again.")
    model, tokenizer = load_port(weights), Tokenizer.load(job.input.vocabulary)
    with own_caches():
        softmax, executed_by = kernel_for(device, kernel, params["entry"])
        past_simple = past_simple_forms(job.input.lexicon)
        comparison = swap_softmax(model, tokenizer, prompt, past_simple, softmax, device)
    for path in ("cpu", "before", "after"):
        words = ", ".join(f"{row['word']} {row['probability']:.4f}" for row in comparison[path]["top"])
        log.info("%-6s %r -> %s", path, prompt, words)
    report = {"prompt": prompt, "device": device, "kernel": kernel, "executed_by": executed_by, **comparison}
    report["provenance"] = provenance(job.input.sources, params, device, [weights, job.input.vocabulary])
    write_artefact(job.output.report, report)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
