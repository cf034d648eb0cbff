"""Time the whole model on every rung, from eager to one kernel, in one process (rule model_contest)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device, usable_cores
from minilab.files import sha256
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run
from minimodel.corpus import TokenStream, read_corpus
from minimodel.opening import load_checkpoint
from minimodel.tokenizer import Tokenizer

log = logging.getLogger("minilab")


def main(job):
    device, params, source = job.wildcards.device, job.params.measuring, job.input
    _, held_out = read_corpus(source.corpus, params["corpus"]["held_out"])
    text = TokenStream(held_out, Tokenizer.load(source.vocabulary))
    made = provenance(source.sources, params, device, [source.corpus, source.vocabulary])
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        import torch

        from minikernel.measure.model.contest import run_contest
        from minimodel.port import port

        torch.set_num_threads(usable_cores())
        model, _ = port(load_checkpoint(source.checkpoint))
        result = run_contest(params, model, text, torch_device(device), log.info)
    result["weights_sha256"] = sha256(source.checkpoint)
    write_artefact(job.output.model, {"provenance": made, **result}, source.schema)
    missed = [bar for bar in result["bars"] if not bar["met"]]
    for bar in missed:
        log.info("missed: %(what)s at (%(batch)s, %(time)s) %(dtype)s: %(value)s, bar %(bar)s", bar)
    log.info("%d of %d bars met", len(result["bars"]) - len(missed), len(result["bars"]))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
