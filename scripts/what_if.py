"""Compile one model twice with one knob flipped, and write what that changed (rule what_if_compiled)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device
from minilab.records.params import kind_of
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    checkpoint = job.input.get("checkpoint") or None
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        import torch

        from minicompile.flipping import what_if
        from minicompile.models import build
        from minicompile.watching.model import SIMULATED_DEVICE

        target = "simulated" if device == SIMULATED_DEVICE else kind_of(device)
        place = torch_device(device) if target == "cuda" else "cpu"
        torch.set_num_threads(params["threads"])  # the C++ kernels are written for that many
        model = build(job.wildcards.model, checkpoint, params["entry"], tuple(params["shape"])).to(place)
        found = what_if(model.module, model.inputs, job.wildcards.knob, target=target, **model.settings)
    found["provenance"] = provenance(job.input.sources, params, device)
    for side in ("before", "after"):
        log.info("%s: %s", side, ", ".join(f"{name} {count}" for name, count in found[side]["counts"].items()))
    write_artefact(job.output.found, found, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
