"""Compare two captures: what appeared, vanished or was fused differently, and why (rule diff_compiles)."""

from minicompile.explain.capture_diff import diff_compiles
from minicompile.explain.capture_diff_text import described
from minilab.files import read_json, write_json, write_text
from minilab.script import run


def main(job):
    found = diff_compiles(read_json(job.input.a), read_json(job.input.b))
    write_json(job.output.data, found)
    write_text(job.output.text, described(found, job.params.language))


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
