"""Compile one model with every stage of torch.compile watched, and write what was seen (rule watch)."""

import logging
from pathlib import Path

import torch

from minicompile.exported import write_exported
from minicompile.models import build
from minicompile.watching.model import call_arguments, target_of, watch_model
from minikernel.measure.caches import own_caches
from minilab.device import torch_device
from minilab.progress import progress
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    target = target_of(device)
    place = torch_device(device) if target == "cuda" else "cpu"
    torch.set_num_threads(params["threads"])  # the C++ kernels are written for that many
    checkpoint = job.input.get("checkpoint") or None
    model = build(job.wildcards.model, checkpoint, params["entry"], tuple(params["shape"])).to(place)
    log.info("compiling %s, every stage watched", model.name, extra=progress(0, 2))
    with own_caches():
        made = watch_model(model.module, model.inputs, target=target, assembly=True, verify=True, **model.settings)
    log.info("compiled in %.1f s for %s", made["seconds"], target, extra=progress(1, 2))
    exported = Path(job.output.watched).with_name("exported.pt2")
    refused = write_exported(model.module, *call_arguments(model.module, model.inputs, model.kwargs), exported)
    if refused:
        made["warnings"].append({"code": "not_exported", "what": exported.name, "reason": refused})
    made["provenance"] = provenance(job.input.sources, params, device)
    write_artefact(job.output.watched, made, job.input.schema)
    log.info("%s written", job.output.watched, extra=progress(2, 2))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
