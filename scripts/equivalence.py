"""Prove that the PyTorch port computes what the NumPy model computes, layer by layer (rule equivalence)."""

import logging

from minilab.files import sha256
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run
from minimodel.equivalence import check_equivalence
from minimodel.opening import load_checkpoint, load_port

log = logging.getLogger("minilab")


def main(job):
    weights, contract = job.input.weights, job.params.equivalence
    report = check_equivalence(load_checkpoint(job.input.checkpoint), load_port(weights), **contract)
    log.info("Ulps, largest of each layer %32s %14s %16s", "torch - NumPy", "layer alone", "torch - float64")
    for row in report["layers"]:
        ulps = [row[key]["max_ulps"] for key in ("torch_numpy", "own", "torch_float64")]
        log.info("%-32s %27.2f %14.2f %16.2f", row["layer"], *ulps)
    for name in ("logits", "probabilities"):
        worst = report["outputs"][name]
        share = 100 * worst["elementwise_tolerance_used"]
        log.info("%s differ by at most %.3g, %.0f %% of tolerance", name, worst["max_abs_difference"], share)
    report["weights"]["sha256"] = sha256(weights)
    report["provenance"] = provenance(job.input.lib, dict(contract), inputs=[job.input.checkpoint, weights])
    write_artefact(job.output.report, report)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
