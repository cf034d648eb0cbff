"""Compile one model with every stage of torch.compile watched, and write what was seen (rule capture)."""

import logging
from pathlib import Path

import torch

from minicompile.capturing import capture
from minicompile.exported import write_exported
from minicompile.models import build
from minicompile.watching.model import call_arguments
from minikernel.measure.caches import own_caches
from minilab.device import is_cpu, torch_device
from minilab.progress import progress
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def target_of(device: str) -> str:
    """What to compile for, given a slug of results/25."""
    if device.startswith("simulated-"):
        return "simulated"
    return "cpu" if is_cpu(device) else "cuda"


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    target = target_of(device)
    place = torch_device(device) if target == "cuda" else "cpu"
    torch.set_num_threads(params["threads"])  # the C++ kernels are written for that many
    checkpoint = job.input.get("checkpoint") or None
    model = build(job.wildcards.model, checkpoint, params["entry"], tuple(params["shape"])).to(place)
    log.info("compiling %s, every stage watched", model.name, extra=progress(0, 3))
    with own_caches():
        made = capture(model.module, model.inputs, target=target, assembly=True, **model.settings)
    made["provenance"] = provenance(job.input.sources, params, device)
    for graph in made["graphs"]:
        counts = {what: f"{pair[0]}/{pair[1]}" for what, pair in graph["coverage"].items() if what != "missing"}
        log.info("%s %s: %s", model.name, graph["id"], ", ".join(f"{what} {count}" for what, count in counts.items()))
    log.info("compiled in %.1f s for %s", made["compile"]["seconds"], made["target"]["kind"], extra=progress(1, 3))
    log.info("%d links between its lines", len(made["links"]), extra=progress(2, 3))
    exported = Path(job.output.capture).with_name("exported.pt2")
    refused = write_exported(model.module, *call_arguments(model.module, model.inputs, model.kwargs), exported)
    if refused:
        made["warnings"].append({"code": "not_exported", "what": exported.name, "reason": refused})
    for warning in made["warnings"]:
        log.warning("%s: %s", warning.get("what", model.name), warning.get("reason", warning["code"]))
    write_artefact(job.output.capture, made, job.input.schema)
    log.info("%s written", job.output.capture, extra=progress(3, 3))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
