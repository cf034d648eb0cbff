"""Port the NumPy checkpoint to PyTorch, array by array, byte for byte (rule port)."""

import logging

from minilab import LabError
from minilab.files import sha256
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run
from minimodel.opening import load_checkpoint
from minimodel.port import port, save_port

log = logging.getLogger("minilab")


def main(job):
    checkpoint = load_checkpoint(job.input.checkpoint)
    if checkpoint.metadata["digest"] != read_artefact(job.input.description, job.config)["digest"]:
        raise LabError(
            f"{job.input.checkpoint} is not the checkpoint that {job.input.description} describes: their digests "
            f"differ; delete it and build it again with `snakemake --cores 4 {job.input.checkpoint}`."
        )
    model, table = port(checkpoint)
    for row in table:
        log.info("%-32s -> %-32s %s", row["numpy_name"], row["torch_name"], tuple(row["shape"]))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    log.info("%d arrays, %d parameters, all byte-equal", len(table), parameters)
    save_port(job.output.weights, model)
    report = {
        "arrays": table,
        "parameters": parameters,
        "byte_equal": all(row["byte_equal"] for row in table),
        "weights_sha256": sha256(job.output.weights),
        "provenance": provenance(job.input.lib, {}, inputs=[job.input.checkpoint]),
    }
    write_artefact(job.output.report, report)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
