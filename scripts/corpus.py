"""Sample the corpus from the grammar, and write it with its vocabulary (rule corpus)."""

import logging

from minilab.files import write_text
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run
from minimodel.corpus import sample_corpus
from minimodel.grammar import load_grammar
from minimodel.tokenizer import Tokenizer


def main(job):
    corpus = job.params.corpus
    grammar = load_grammar(job.input.lexicon, job.input.grammar)
    lines = sample_corpus(grammar, corpus["sentences"], corpus["seed"])
    tokenizer = Tokenizer.from_words(grammar.words)
    write_text(job.output.corpus, "\n".join(lines) + "\n")
    write_artefact(
        job.output.vocabulary,
        {
            "tokens": list(tokenizer.tokens),
            "provenance": provenance(job.input.lib, {"corpus": corpus}),
        },
    )
    logging.getLogger("minilab").info(
        "%d sentences, a vocabulary of %d tokens; the first: %s", len(lines), len(tokenizer), lines[0]
    )


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
