"""Compare two captures: what appeared, vanished or was fused differently, and why (rule diff_compiles)."""

from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minilab.files import write_json
from minilab.records.store import read_artefact
from minilab.script import run
from minilab.site.glossary import write_linked


def main(job):
    found = diff_compiles(read_artefact(job.input.a, job.config), read_artefact(job.input.b, job.config))
    write_json(job.output.data, found)
    write_linked(job.output.text, described(found, job.params.language), job.params.language)


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
