"""Write a capture's texts as plain files (rule plain_files)."""

from minicompile.explain.plain_files import TEXTS, write_plain_files
from minilab.records.store import read_artefact
from minilab.script import run


def main(job):
    capture = read_artefact(job.input.capture, job.config)
    write_plain_files(capture, {name: getattr(job.output, name) for name in (*TEXTS, "kernel")})


if __name__ == "__main__":
    run(main, globals().get("snakemake"))
