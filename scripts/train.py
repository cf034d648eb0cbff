"""Train the NumPy MiniGPT on the corpus and judge it against the grammar's entropy (rule train)."""

import logging

from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run
from minimodel.checkpoint import save_checkpoint
from minimodel.corpus import TokenStream, read_corpus
from minimodel.grammar import load_grammar
from minimodel.model_config import MiniGPTConfig
from minimodel.tokenizer import Tokenizer
from minimodel.training import HeldOut, train


def main(job):
    params, source = job.params, job.input
    tokenizer = Tokenizer.load(source.vocabulary)
    config = MiniGPTConfig(vocab_size=len(tokenizer), **params.model)
    training_lines, held_out_lines = read_corpus(source.corpus, params.corpus["held_out"])
    held_out = HeldOut(
        TokenStream(held_out_lines, tokenizer),
        tokenizer,
        load_grammar(source.lexicon, source.grammar),
        config.block_size,
    )
    model, record = train(config, TokenStream(training_lines, tokenizer), held_out, params.training)
    logging.getLogger("minilab").info(
        "held-out cross-entropy %.4f nats, %.2f %% above the grammar's entropy, after %.0f s",
        record["held_out_cross_entropy"],
        record["excess_percent"],
        record["seconds"],
    )
    save_checkpoint(job.output.weights, model.arrays, config)
    record["provenance"] = provenance(
        source.lib,
        {"model": params.model, "training": params.training, "corpus": params.corpus},
        inputs=[source.corpus, source.vocabulary],
    )
    write_artefact(job.output.record, record)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
