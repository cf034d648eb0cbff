"""Compile one model with every stage of torch.compile watched, and write what was seen (rule capture)."""

import logging

import torch

from minicompile.explain.plain_files import TEXTS, write_plain_files
from minicompile.explain.wording import Wording
from minicompile.lowering.capture import capture
from minicompile.lowering.exported import write_exported
from minicompile.models import build
from minikernel.measure.caches import own_caches
from minilab.config import check_schema, read_schema
from minilab.device import is_cpu, torch_device
from minilab.files import write_json
from minilab.progress import progress
from minilab.records.provenance import provenance
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
        made = capture(model.module, model.inputs, target=target, train=model.train, name=model.name)
    made["provenance"] = provenance(job.input.sources, params, device)
    for graph in made["graphs"]:
        counts = {what: f"{pair[0]}/{pair[1]}" for what, pair in graph["coverage"].items() if what != "missing"}
        log.info("%s %s: %s", model.name, graph["id"], ", ".join(f"{what} {count}" for what, count in counts.items()))
    log.info("compiled in %.1f s: %s", made["compile"]["seconds"], Wording().label(made), extra=progress(1, 3))
    check_schema(made, read_schema(job.input.schema), job.output.capture)
    log.info("%d links between its lines, checked", len(made["links"]), extra=progress(2, 3))
    write_exported(model.module, model.inputs, job.output.exported)
    write_plain_files(made, {name: getattr(job.output, name) for name in (*TEXTS, "kernel")})
    write_json(job.output.capture, made)
    log.info("%s written", job.output.capture, extra=progress(3, 3))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
