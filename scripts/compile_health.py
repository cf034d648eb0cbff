"""Compile one captured model through maybe_compile, and say whether that is safe here (rule compile_health)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    with own_caches():  # before torch is imported: some of what it reads, it reads once
        import torch

        from minicompile import CompileConfig, health
        from minicompile.models import build
        from minicompile.torch_private.paths import without_paths
        from minicompile.torch_private.profiling import fresh_caches

        torch.set_num_threads(job.threads)
        cfg = CompileConfig.from_dict(params["compile"], "config.yaml: compile")
        checkpoint = job.input.get("checkpoint") or None
        made = build(job.wildcards.model, checkpoint, params["entry"], tuple(params["shape"])).to(torch_device(device))
        # A model in training is trained, any other is only called, as serving would.
        with fresh_caches(), torch.set_grad_enabled(made.module.training):
            found = without_paths(health(made.module, cfg, made.inputs, logger=log))
    log.info("%s on %s: %s", made.name, device, ", ".join(each["code"] for each in found["complaints"]) or "healthy")
    found = {
        "model": made.name,
        **found,
        "provenance": provenance(job.input.sources, params, device, [checkpoint] if checkpoint else []),
    }
    write_artefact(job.output.health, found, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
