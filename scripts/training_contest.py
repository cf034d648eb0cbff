"""Time a training step on every rung and the whole training in one launch, in one process (rule training_contest)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device, usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run
from minimodel.corpus import TokenStream, read_corpus
from minimodel.grammar import load_grammar
from minimodel.model_config import MiniGPTConfig
from minimodel.tokenizer import Tokenizer
from minimodel.training import HeldOut

log = logging.getLogger("minilab")


def main(job):
    device, params, source = job.wildcards.device, job.params.measuring, job.input
    tokenizer = Tokenizer.load(source.vocabulary)
    config = MiniGPTConfig(vocab_size=len(tokenizer), **params["model"])
    texts = read_corpus(source.corpus, params["corpus"]["held_out"])
    text, held_out = (TokenStream(lines, tokenizer) for lines in texts)
    # in rows as long as those of the last phase, in which the kernel evaluates the end
    length = params["training"]["phases"][-1]["time"]
    limit = HeldOut(held_out, tokenizer, load_grammar(), length).limit
    made = provenance(source.sources, params, device, [source.corpus, source.vocabulary])
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        import torch

        from minikernel.measure.training.contest import run_contest

        torch.set_num_threads(usable_cores())
        result = run_contest(params, config, text, held_out, limit, torch_device(device), log.info)
    write_artefact(job.output.training, {"provenance": made, **result}, source.schema)
    log.info("%d of %d bars met", sum(bar["met"] for bar in result["bars"]), len(result["bars"]))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
