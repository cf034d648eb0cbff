"""Write stage 24's manifest (rule manifest_24)."""

from minikernel.report.manifest import manifest_24
from minilab.records.provenance import provenance
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run


def main(job):
    # in the configuration's order, of which the parameter knows nothing: it decides no figure
    order = list((job.config or {}).get("kernels", job.params.kernels))
    manifest = manifest_24(
        bench=read_artefact(job.input.bench[0], job.config),
        autotune=read_artefact(job.input.autotune[0], job.config) if job.input.autotune else None,
        swap=read_artefact(job.input.swap[0], job.config),
        equivalence=read_artefact(job.input.equivalence, job.config),
        port=read_artefact(job.input.port, job.config),
        seed=job.params.seed,
        kernels=sorted(job.params.kernels, key=order.index),
    )
    manifest["provenance"] = provenance(job.input.lib, {"seed": job.params.seed, "kernels": job.params.kernels})
    write_artefact(job.output.manifest, manifest)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
