"""Join the trained arrays with their vocabulary into the checkpoint (rule export_checkpoint)."""

import logging

from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run
from minimodel.checkpoint import save_checkpoint
from minimodel.opening import load_checkpoint
from minimodel.tokenizer import Tokenizer


def main(job):
    trained = load_checkpoint(job.input.weights)
    tokenizer = Tokenizer.load(job.input.vocabulary)
    metadata = save_checkpoint(job.output.checkpoint, trained.arrays, trained.config, list(tokenizer.tokens))
    load_checkpoint(job.output.checkpoint)
    parameters = sum(array.size for array in trained.arrays.values())
    description = {key: value for key, value in metadata.items() if key != "tokens"}
    write_artefact(
        job.output.description,
        {
            **description,
            "parameters": parameters,
            "provenance": provenance(job.input.lib, {}, inputs=[job.input.weights, job.input.vocabulary]),
        },
    )
    logging.getLogger("minilab").info("%d parameters, digest %s", parameters, metadata["digest"])


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
