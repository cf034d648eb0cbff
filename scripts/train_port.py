"""Train the PyTorch port eager and compiled, in turn, on the grammar (rule train_port)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run
from minimodel.corpus import TokenStream, read_corpus
from minimodel.model_config import MiniGPTConfig
from minimodel.tokenizer import Tokenizer


def main(job):
    device, params, source = job.wildcards.device, job.params.measuring, job.input
    tokenizer = Tokenizer.load(source.vocabulary)
    config = MiniGPTConfig(vocab_size=len(tokenizer), **params["model"])
    lines = read_corpus(source.corpus, params["corpus"]["held_out"])
    text, held_out = (TokenStream(part, tokenizer) for part in lines)
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        from minicompile.torch_private.paths import without_paths
        from minicompile.torch_private.profiling import fresh_caches
        from minicompile.training.measure import measure

        with fresh_caches():
            log = logging.getLogger("minilab")
            numpy_run = read_artefact(source.numpy, job.config)
            made = without_paths(measure(config, text, held_out, params, numpy_run, torch_device(device), log))
    made["provenance"] = provenance(source.sources, params, device, [source.corpus, source.vocabulary])
    write_artefact(job.output.training, made, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
