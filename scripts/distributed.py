"""Train under the four patterns of parallelism and count what each costs (rule distributed)."""

from minicompile.distributed.measure import measure, torch_devices
from minilab.records.provenance import provenance
from minilab.records.store import write_artefact
from minilab.script import run


def main(job):
    device, params = job.wildcards.device, job.params.measuring
    made = provenance(job.input.sources, params, device)
    write_artefact(job.output.report, {**measure(params, torch_devices(device)), "provenance": made})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
