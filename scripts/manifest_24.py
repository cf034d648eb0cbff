"""Write stage 24's manifest (rule manifest_24)."""

from minikernel.report.manifest import manifest_24
from minilab.files import read_json, write_json
from minilab.script import run


def main(job):
    manifest = manifest_24(
        bench=read_json(job.input.bench[0]),
        autotune=read_json(job.input.autotune[0]) if job.input.autotune else None,
        swap=read_json(job.input.swap[0]),
        equivalence=read_json(job.input.equivalence),
        port=read_json(job.input.port),
        seed=job.params.seed,
        kernels=job.params.kernels,
    )
    write_json(job.output.manifest, manifest)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
