"""Prove that the PyTorch port computes what the NumPy model computes, layer by layer (rule equivalence)."""

import logging

from minilab.files import sha256, write_json
from minilab.provenance import provenance
from minilab.script import run
from minimodel.checkpoint import load_checkpoint
from minimodel.equivalence import check_equivalence
from minimodel.port import load_port

log = logging.getLogger("minilab")


def main(job):
    report = check_equivalence(load_checkpoint(job.input.checkpoint), load_port(job.input.weights))
    log.info("Ulps, largest of each layer %34s %12s %14s", "torch - NumPy", "layer alone", "torch - float64")
    for row in report["layers"]:
        ulps = [row[key]["max_ulps"] for key in ("torch_numpy", "own", "torch_float64")]
        log.info("%-32s %29.2f %12.2f %14.2f", row["layer"], *ulps)
    for name in ("logits", "probabilities"):
        log.info("%s differ by at most %.3g", name, report["outputs"][name]["max_abs_difference"])
    report["weights"]["sha256"] = sha256(job.input.weights)
    report["provenance"] = provenance(getattr(job.input, "lib", []), params=report["contract"])
    write_json(job.output.report, report)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
