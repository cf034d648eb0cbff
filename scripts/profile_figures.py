"""Conclude from a profile's samples where the time goes (rule profile_figures)."""

from minicompile.profile.conclusions import profiled
from minilab.records.provenance import concluded
from minilab.records.store import read_artefact, write_artefact
from minilab.script import run


def main(job):
    samples = read_artefact(job.input.samples, job.config)
    profile = profiled(samples)
    profile["provenance"] = concluded(job.input.lib, samples["provenance"], job.input.samples)
    if "restored" in samples:
        profile["restored"] = samples["restored"]
    write_artefact(job.output.profile, profile, job.input.schema)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
