"""Time everything of ours and every installed peer in one process (rule contest)."""

import logging

from minikernel.measure.caches import own_caches
from minilab.device import torch_device, usable_cores
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run

log = logging.getLogger("minilab")


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    choices = read_artefact(job.input.choice, job.config)
    made = provenance(job.input.sources, params, device, [job.input.choice])
    with own_caches():
        import torch

        from minikernel.measure.choice import choose
        from minikernel.measure.contest.contest import run_contest

        torch.set_num_threads(usable_cores())
        result = run_contest(
            params,
            lambda rows, cols, dtype: choose(choices, rows, cols, dtype),
            torch_device(device),
            log.info,
            lambda so_far: write_artefact(job.output.contest, {"provenance": made, **so_far}),
        )
    missed = [entry for entry in result["standards"] if not entry["met"]]
    for entry in missed:
        log.info(
            "missed: %(standard)d, %(what)s, %(rows)dx%(cols)d %(dtype)s, %(timing)s: %(value)s, bar %(bar)s", entry
        )
    log.info("%d of %d standards met", len(result["standards"]) - len(missed), len(result["standards"]))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
